package engine

import (
	"context"
	"fmt"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// NotRetryable rejects the retry of a job that is neither FAILED nor TIMED_OUT.
type NotRetryable struct{ State State }

func (e *NotRetryable) Error() string {
	return fmt.Sprintf("only a job that is %s or %s can be retried; this one is %s", Failed, TimedOut, e.State)
}

// Retry requeues a job with the same id and input until its retention ends:
// FAILED, TIMED_OUT → IN_QUEUE. It deletes the result and a pending webhook call. If the job
// has another state, it returns *NotRetryable.
func (e *Engine) Retry(ctx context.Context, endpoint, id string) (Job, error) {
	if _, err := e.Get(ctx, endpoint, id); err != nil { // also times out an overdue job
		return Job{}, err
	}
	var now int64
	changes, err := e.transition(ctx, e.write, func(tx *sqldb.Tx) ([]change, error) {
		now = e.now()
		for _, from := range []State{Failed, TimedOut} {
			changes, err := update(tx, InQueue, retryJob, now, now, from, endpoint, id, now)
			if err != nil {
				return nil, err
			}
			if len(changes) > 0 {
				changes[0].from = from
				return changes, deleteResults(tx, changes, deleteOutput, deleteChunks, deleteWebhook)
			}
		}
		return nil, nil
	})
	if err != nil {
		return Job{}, err
	}
	if len(changes) == 0 {
		job, err := e.Get(ctx, endpoint, id)
		switch {
		case err != nil:
			return Job{}, err
		case job.State == Failed || job.State == TimedOut: // it has just ended
			return e.Retry(ctx, endpoint, id)
		}
		return Job{}, &NotRetryable{job.State}
	}
	return Job{Endpoint: endpoint, ID: id, State: InQueue, Queued: fromMillis(now)}, nil
}

// deleteResults runs statements that delete what earlier runs of the jobs left.
func deleteResults(tx *sqldb.Tx, changes []change, statements ...string) error {
	for _, c := range changes {
		for _, statement := range statements {
			if err := tx.Later(statement, c.k); err != nil {
				return err
			}
		}
	}
	return nil
}
