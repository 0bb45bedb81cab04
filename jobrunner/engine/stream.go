package engine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Drain reads a job as Get does, and the chunks of its stream that nobody has
// read yet, in order, each {"output": …} with "metrics" where the handler gave
// some. What it answers is gone afterwards. Where there is very much, more says
// that some is left; only with the last of it is a terminal state the end.
func (e *Engine) Drain(ctx context.Context, endpoint, id string) (job Job, chunks [][]byte, more bool, err error) {
	// The state comes first: what a job streams before its end is then read with
	// the terminal state, or before.
	job, err = e.Get(ctx, endpoint, id)
	if err != nil {
		return Job{}, nil, false, err
	}
	last := int64(0)
	err = e.db.Read(ctx, func(r *sqldb.Reader) (err error) {
		last, more, err = upTo(r, endpoint, id, e.now())
		return err
	})
	if err != nil || last == 0 {
		return job, nil, false, err
	}
	type numbered struct {
		seq   int64
		chunk []byte
	}
	var all []numbered
	err = e.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
		all, err = collect(tx, func(rows *sql.Rows) (n numbered, err error) {
			return n, rows.Scan(&n.seq, &n.chunk)
		}, drained, endpoint, id, e.now(), last)
		return err
	})
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(a.seq, b.seq) })
	for _, n := range all {
		chunks = append(chunks, n.chunk)
	}
	return job, chunks, more, err
}

// upTo is the number of the last chunk that one read hands over, 0 where there
// is none, and whether there are more.
func upTo(r *sqldb.Reader, endpoint, id string, now int64) (last int64, more bool, err error) {
	rows, err := r.Query(undrained, endpoint, id, now)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for total := 0; rows.Next(); {
		var seq int64
		var size int
		if err := rows.Scan(&seq, &size); err != nil {
			return 0, false, err
		}
		if total += size; last > 0 && total > maxDrain {
			return last, true, nil
		}
		last = seq
	}
	return last, false, rows.Err()
}

// stream keeps chunks until they are read.
func stream(tx *sqldb.Tx, ref Ref, chunks [][]byte, mine []any) ([]change, error) {
	var k, last int64
	err := tx.QueryRow(chunked, slices.Concat([]any{len(chunks)}, mine)...).Scan(&k, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, c := range chunks {
		if _, err := tx.Exec(addChunk, k, last-int64(len(chunks)-1-i), c); err != nil {
			return nil, err
		}
	}
	return []change{{k: k, endpoint: ref.Endpoint, id: ref.ID, from: InProgress, to: InProgress}}, nil
}

// Holds tells whether a job is still in the hands of the worker that took it:
// it was not cancelled, its time is not over, and it is not gone.
func (e *Engine) Holds(ctx context.Context, ref Ref) (bool, error) {
	now := e.now()
	var one int
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(held, ref.Endpoint, ref.ID, now, ref.Worker, ref.Attempt, now).Scan(&one)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return one == 1, err
}
