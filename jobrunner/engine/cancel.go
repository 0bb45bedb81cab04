package engine

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Cancel ends a job that waits or runs: IN_QUEUE, IN_PROGRESS → CANCELLED. A
// job that has ended already is answered as it is.
func (e *Engine) Cancel(ctx context.Context, endpoint, id string) (Job, error) {
	var changes []change
	err := e.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
		now := e.now()
		changes, err = update(tx, Cancelled, cancelled, now, now, endpoint, id, now, now)
		return err
	})
	if err != nil {
		return Job{}, err
	}
	e.apply(changes...)
	job, err := e.Get(ctx, endpoint, id)
	if err == nil && !job.State.Terminal() { // retried just now
		return e.Cancel(ctx, endpoint, id)
	}
	return job, err
}
