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

// Drain reads a job and removes the unread chunks from its stream, in order. A chunk is
// {"output": …}, with "metrics" if the handler gave some. An element of chunks may have several
// small chunks, separated by commas. If more is true, the stream has further chunks, even if
// the job has ended.
func (e *Engine) Drain(ctx context.Context, endpoint, id string) (job Job, chunks [][]byte, more bool, err error) {
	// Read the state first, so that all chunks are included if the job has ended.
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
	all := e.drained.remove(key)
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

// Unread counts a job's unread chunks.
func (e *Engine) Unread(ctx context.Context, endpoint, id string) (n int, err error) {
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(countUnread, endpoint, id, e.now()).Scan(&n)
	})
	return n, err
}

// drain deletes the chunks up to a number from the database and returns them, merged with
// undelivered chunks of an earlier drain.
func (e *Engine) drain(ctx context.Context, key jobKey, last int64, undelivered []numberedChunk) (all []numberedChunk, err error) {
	err = e.writeWithReserve(ctx, func(tx *sqldb.Tx) (err error) {
		all = nil
		all, err = collect(tx, func(rows sqldb.Rows) (n numberedChunk, err error) {
			return n, rows.Scan(&n.seq, &n.chunk)
		}, deleteReadChunks, key.endpoint, key.id, e.now(), last)
		return err
	})
	for _, n := range undelivered {
		if !slices.ContainsFunc(all, func(o numberedChunk) bool { return o.seq == n.seq }) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b numberedChunk) int { return cmp.Compare(a.seq, b.seq) })
	if err != nil {
		e.drained.put(key, all)
	}
	return all, err
}

type numberedChunk struct {
	seq   int64
	chunk []byte
}

// undeliveredChunks holds chunks that may be deleted from the database although no client
// got them, because the reply to the commit was lost. The next Drain returns them.
type undeliveredChunks struct {
	mu  sync.Mutex
	all map[jobKey][]numberedChunk
}

// maxUndelivered bounds the jobs in undeliveredChunks, which have up to maxDrain bytes each.
const maxUndelivered = 16

func (d *undeliveredChunks) put(key jobKey, chunks []numberedChunk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(chunks) == 0 || len(d.all) >= maxUndelivered {
		return
	}
	if d.all == nil {
		d.all = map[jobKey][]numberedChunk{}
	}
	d.all[key] = chunks
}

func (d *undeliveredChunks) remove(key jobKey) []numberedChunk {
	d.mu.Lock()
	defer d.mu.Unlock()
	chunks := d.all[key]
	delete(d.all, key)
	return chunks
}

// lastReadable returns the number of the last chunk that one Drain returns, or 0, and
// whether the stream has more.
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
		total += size
		if last > 0 && total > maxDrain {
			return last, true, nil
		}
		last = seq
	}
	return last, false, rows.Err()
}

// stream stores chunks and returns the number of the job's chunks. holder has the arguments of
// heldByWorker. If attempted isn't 0, an earlier attempt to store the same chunks may have
// succeeded: if the job has that many chunks, stream does nothing.
func stream(tx *sqldb.Tx, ref Ref, chunks [][]byte, attempted int64, holder []any) (_ []change, last int64, err error) {
	var k int64
	accepted := []change{{endpoint: ref.Endpoint, id: ref.ID, from: InProgress, to: InProgress}}
	if attempted > 0 {
		err := tx.QueryRow(selectStreamed, holder...).Scan(&last)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil, 0, nil
		case err != nil:
			return nil, 0, err
		case last >= attempted:
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

// Holds reports whether a worker still has a job that it took: the job was neither
// cancelled nor has it timed out or expired. Because an embedded database may hand a job
// out before the commit of its take, Holds waits for that commit.
func (e *Engine) Holds(ctx context.Context, ref Ref) (held bool, err error) {
	now := e.now()
	check := func(q sqldb.Querier) error {
		var one int
		err := q.QueryRow(selectHeld, ref.Endpoint, ref.ID, now, ref.Worker, ref.Attempt, now).Scan(&one)
		held = err == nil
		if errors.Is(err, sql.ErrNoRows) {
			err = nil // an error would roll back the other transactions of the commit
		}
		return err
	}
	if e.db.Shared() { // a read usually suffices
		err = e.db.Read(ctx, func(r *sqldb.Reader) error { return check(r) })
	}
	if !held && err == nil {
		err = e.db.WriteBehind(ctx, func(tx *sqldb.Tx) error {
			u := unwrittenIn(tx)
			if u.has(ref) {
				held = u.heldBy(ref, now) != nil
				return nil
			}
			return check(tx)
		})
	}
	return held, err
}
