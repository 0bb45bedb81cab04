package engine

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Purge deletes the jobs in an endpoint's queue and returns how many: IN_QUEUE → (none).
// It leaves jobs that are queued or taken after its start. It uses several transactions for
// a long queue: if one fails, the remaining jobs stay.
func (e *Engine) Purge(ctx context.Context, endpoint string) (removed int, err error) {
	turn, last, err := e.endOfQueue(ctx, endpoint)
	limit := e.newTxLimit()
	for more := err == nil; more; {
		var gone []change
		var took time.Duration
		gone, err = e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) ([]change, error) {
			now, begin := e.now(), time.Now()
			gone, err := remove(tx, deleteQueued, endpoint, now, turn, last, limit.jobs)
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
		limit.adapt(len(gone), took)
	}
	return removed, err
}

// endOfQueue returns the turn and key that separate the queued jobs from later ones. A turn
// is a time of the process that queued the job, whose clock may be ahead of this one's.
func (e *Engine) endOfQueue(ctx context.Context, endpoint string) (turn, last int64, err error) {
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(selectQueueEnd, endpoint).Scan(&turn, &last)
	})
	return max(turn, e.now()), last, err
}
