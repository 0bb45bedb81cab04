package engine

import (
	"context"
	"database/sql"
	"errors"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Purge deletes the jobs that wait in an endpoint's queue when it begins,
// IN_QUEUE → (none), and says how many. A job that a worker takes meanwhile
// runs. A long queue goes in several transactions; an error leaves what is not
// deleted yet in the queue.
func (e *Engine) Purge(ctx context.Context, endpoint string) (removed int, err error) {
	turn, last, err := e.endOfQueue(ctx)
	for more := err == nil; more; {
		var gone []change
		gone, err = e.transition(ctx, e.db.WriteWithReserve, func(tx *sqldb.Tx) ([]change, error) {
			now := e.now()
			gone, err := remove(tx, deleteQueued, endpoint, now, turn, last, sweepChunk)
			if err != nil {
				return nil, err
			}
			var k int64
			err = tx.QueryRow(purgeableLeft, endpoint, now, turn, last).Scan(&k)
			more = err == nil
			if errors.Is(err, sql.ErrNoRows) {
				err = nil
			}
			return gone, err
		})
		if err != nil {
			break
		}
		removed += len(gone)
	}
	return removed, err
}

// endOfQueue tells the jobs that wait now from those to come.
func (e *Engine) endOfQueue(ctx context.Context) (turn, last int64, err error) {
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		turn = e.now()
		return r.QueryRow(newestKey).Scan(&last)
	})
	return turn, last, err
}
