package engine

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Purge deletes the jobs that wait in an endpoint's queue when it begins,
// IN_QUEUE → (none), and says how many. A job that a worker takes meanwhile
// runs. A long queue goes in several transactions; an error leaves what is not
// deleted yet in the queue.
func (e *Engine) Purge(ctx context.Context, endpoint string) (removed int, err error) {
	turn, last, err := e.endOfQueue(ctx, endpoint)
	part := e.newSlice()
	for more := err == nil; more; {
		var gone []change
		var took time.Duration
		gone, err = e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) ([]change, error) {
			now, begin := e.now(), time.Now()
			gone, err := remove(tx, deleteQueued, endpoint, now, turn, last, part.jobs)
			if err != nil {
				return nil, err
			}
			var k int64
			err = tx.QueryRow(purgeableLeft, endpoint, now, turn, last).Scan(&k)
			more = err == nil
			if errors.Is(err, sql.ErrNoRows) {
				err = nil
			}
			took = time.Since(begin)
			return gone, err
		})
		if err != nil {
			break
		}
		removed += len(gone)
		part.adapt(len(gone), took)
	}
	return removed, err
}

// endOfQueue tells the jobs that wait now from those to come. The place of a job in
// the queue is a time of the process that queued it, whose clock may be ahead of this
// one's.
func (e *Engine) endOfQueue(ctx context.Context, endpoint string) (turn, last int64, err error) {
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(selectQueueEnd, endpoint).Scan(&turn, &last)
	})
	return max(turn, e.now()), last, err
}
