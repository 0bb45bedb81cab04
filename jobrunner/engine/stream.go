package engine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Drain reads a job as Get does, and the chunks of its stream that nobody has
// read yet, in order, each {"output": …} with "metrics" where the handler gave
// some; small ones that were reported together are one, separated by commas. What it answers is gone afterwards. Where there is very much, more says
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
		last, more, err = lastReadable(r, endpoint, id, e.now())
		return err
	})
	if err != nil {
		return job, nil, false, err
	}
	key := jobKey{endpoint, id}
	all := e.drains.takeOut(key)
	if last > 0 {
		if all, err = e.drain(ctx, key, last, all); err != nil {
			return job, nil, false, err
		}
	}
	for _, n := range all {
		chunks = append(chunks, n.chunk)
	}
	return job, chunks, more, nil
}

// Unread counts the chunks of a job that nobody has read yet.
func (e *Engine) Unread(ctx context.Context, endpoint, id string) (n int, err error) {
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(countUnread, endpoint, id, e.now()).Scan(&n)
	})
	return n, err
}

// drain takes the chunks up to a number out of the database, and joins those
// that an earlier drain may have taken out and did not hand over.
func (e *Engine) drain(ctx context.Context, key jobKey, last int64, before []numberedChunk) (all []numberedChunk, err error) {
	err = e.writeWithReserve(ctx, func(tx *sqldb.Tx) (err error) {
		all = nil
		all, err = collect(tx, func(rows sqldb.Rows) (n numberedChunk, err error) {
			return n, rows.Scan(&n.seq, &n.chunk)
		}, deleteReadChunks, key.endpoint, key.id, e.now(), last)
		return err
	})
	for _, n := range before {
		if !slices.ContainsFunc(all, func(o numberedChunk) bool { return o.seq == n.seq }) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b numberedChunk) int { return cmp.Compare(a.seq, b.seq) })
	if err != nil {
		e.drains.put(key, all)
	}
	return all, err
}

// numberedChunk is a chunk with its number.
type numberedChunk struct {
	seq   int64
	chunk []byte
}

// undeliveredChunks are chunks that may be gone from the database, by a commit whose answer
// was lost, and were not handed over. The next read of the job has them.
type undeliveredChunks struct {
	mu  sync.Mutex
	all map[jobKey][]numberedChunk
}

// maxDrains bounds the jobs of which chunks are held: each has maxDrain bytes.
const maxDrains = 16

func (d *undeliveredChunks) put(key jobKey, chunks []numberedChunk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(chunks) == 0 || len(d.all) >= maxDrains {
		return
	}
	if d.all == nil {
		d.all = map[jobKey][]numberedChunk{}
	}
	d.all[key] = chunks
}

func (d *undeliveredChunks) takeOut(key jobKey) []numberedChunk {
	d.mu.Lock()
	defer d.mu.Unlock()
	chunks := d.all[key]
	delete(d.all, key)
	return chunks
}

// lastReadable is the number of the last chunk that one read hands over, 0 where there
// is none, and whether there are more.
func lastReadable(r *sqldb.Reader, endpoint, id string, now int64) (last int64, more bool, err error) {
	rows, err := r.Query(unreadChunks, endpoint, id, now)
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

// stream keeps chunks until they are read, unless an earlier attempt, after
// which there were to be so many, did so. It tells how many there are then.
func stream(tx *sqldb.Tx, ref Ref, chunks [][]byte, was int64, holder []any) (_ []change, last int64, err error) {
	var k int64
	accepted := []change{{endpoint: ref.Endpoint, id: ref.ID, from: InProgress, to: InProgress}}
	if was > 0 {
		err := tx.QueryRow(selectStreamed, holder...).Scan(&last)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil, 0, nil
		case err != nil:
			return nil, 0, err
		case last >= was:
			return accepted, last, nil
		}
	}
	err = tx.QueryRow(addStreamed, slices.Concat([]any{len(chunks)}, holder)...).Scan(&k, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	for i := 0; i < len(chunks); {
		first, row := last-int64(len(chunks)-1-i), chunks[i]
		for i++; i < len(chunks) && len(row)+len(chunks[i]) < maxChunkRow; i++ {
			row = append(append(row, ','), chunks[i]...)
		}
		if err := tx.Later(insertChunk, k, first, row); err != nil {
			return nil, 0, err
		}
	}
	return accepted, last, nil
}

// Holds tells whether a job is still in the hands of the worker that took it:
// it was not cancelled, its time is not over, and it is not gone. The commit of the take,
// ahead of which an embedded database hands a job out, is waited for.
func (e *Engine) Holds(ctx context.Context, ref Ref) (held bool, err error) {
	now := e.now()
	look := func(q sqldb.Querier) error {
		var one int
		err := q.QueryRow(selectHeld, ref.Endpoint, ref.ID, now, ref.Worker, ref.Attempt, now).Scan(&one)
		if held = err == nil; errors.Is(err, sql.ErrNoRows) {
			err = nil // which would undo its neighbours' writes
		}
		return err
	}
	if e.db.Shared() { // which mostly tells
		err = e.db.Read(ctx, func(r *sqldb.Reader) error { return look(r) })
	}
	if !held && err == nil {
		err = e.db.WriteBehind(ctx, func(tx *sqldb.Tx) error {
			u := unwrittenIn(tx)
			if u.has(ref) {
				held = u.heldBy(ref, now) != nil
				return nil
			}
			return look(tx)
		})
	}
	return held, err
}
