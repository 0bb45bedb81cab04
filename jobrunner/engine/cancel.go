package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

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
