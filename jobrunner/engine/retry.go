package engine

import (
	"context"
	"fmt"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// NotRetryable says that a job can't be retried, since it is neither FAILED nor TIMED_OUT.
type NotRetryable struct{ State State }

func (e *NotRetryable) Error() string {
	return fmt.Sprintf("only a job that is %s or %s can be retried; this one is %s", Failed, TimedOut, e.State)
}

// Retry queues a job that failed or timed out again, with its id and its input, as long as
// its result is kept: FAILED, TIMED_OUT → IN_QUEUE. It deletes the result, and a webhook call
// that wasn't made yet. For a job in another state it returns *NotRetryable.
func (e *Engine) Retry(ctx context.Context, endpoint, id string) (Job, error) {
	if _, err := e.Get(ctx, endpoint, id); err != nil { // which also expires a job that is due
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
				return changes, deleteResults(tx, changes[0])
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
		case job.State == Failed || job.State == TimedOut: // it ended just now
			return e.Retry(ctx, endpoint, id)
		}
		return Job{}, &NotRetryable{job.State}
	}
	return Job{Endpoint: endpoint, ID: id, State: InQueue, Queued: fromMillis(now)}, nil
}

// deleteResults deletes what the previous runs left.
func deleteResults(tx *sqldb.Tx, c change) error {
	for _, statement := range []string{deleteOutput, deleteChunks, deleteWebhook} {
		if _, err := tx.Exec(statement, c.k); err != nil {
			return err
		}
	}
	return nil
}
