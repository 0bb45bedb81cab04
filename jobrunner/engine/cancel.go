package engine

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Cancel cancels a job: IN_QUEUE, IN_PROGRESS → CANCELLED. It returns the job, unchanged
// if it has ended already.
func (e *Engine) Cancel(ctx context.Context, endpoint, id string) (Job, error) {
	_, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) ([]change, error) {
		now := e.now()
		return update(tx, Cancelled, cancelJob, now, now, endpoint, id, now, now)
	})
	if err != nil {
		return Job{}, err
	}
	job, err := e.Get(ctx, endpoint, id)
	if err == nil && !job.State.Terminal() { // retried just now
		return e.Cancel(ctx, endpoint, id)
	}
	return job, err
}
