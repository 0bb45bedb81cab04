package engine

import (
	"context"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Submit queues a job: (none) → IN_QUEUE. The job is durable when Submit returns. If a
// taker waits, the same transaction also takes the next job for it.
func (e *Engine) Submit(ctx context.Context, n NewJob) (Job, error) {
	return e.submit(ctx, n, n.newID())
}

// SubmitAndWatch is Submit with a watch of the job's end, on which the caller must call
// Stop.
func (e *Engine) SubmitAndWatch(ctx context.Context, n NewJob) (Job, *Watch, error) {
	id := n.newID()
	watch := e.watch(n.Endpoint, id, true)
	job, err := e.submit(ctx, n, id)
	if err != nil {
		watch.Stop()
		return Job{}, nil, err
	}
	return job, watch, nil
}

func (e *Engine) submit(ctx context.Context, n NewJob, id string) (Job, error) {
	row := n.row(id, e.now())
	var taker *waiter
	if e.canTakeAhead() {
		taker = e.hub.claim(n.Endpoint)
	}
	var next []Taken
	var h handoff
	if taker != nil {
		h.to, h.committed = taker.assigned, taker.take.committed
		defer h.send(nil)
	}
	_, err := e.transition(ctx, e.db.WriteBehind, func(tx *sqldb.Tx) (changes []change, err error) {
		next = nil
		if err := tx.CheckRoom(len(n.Input)+len(n.Rest), sqldb.ForJobs); err != nil {
			return nil, err
		}
		if taker != nil {
			if err := e.prefetch(tx, taker.take); err != nil {
				return nil, err
			}
		}
		err = e.insert(tx, row)
		if err == nil && taker != nil {
			next, changes, err = e.take(tx, taker.take)
			h.sendAhead(tx, next)
		}
		own := change{endpoint: n.Endpoint, id: id, low: n.Low, from: absent, to: InQueue, due: row.gone,
			dispatched: slices.ContainsFunc(next, func(j Taken) bool { return j.ID == id })}
		return append([]change{own}, changes...), err
	})
	if err == nil && taker != nil {
		h.send(next)
	}
	e.returnUnsent(&h, next, err)
	if err != nil {
		return Job{}, err
	}
	return Job{Endpoint: n.Endpoint, ID: id, State: InQueue, Queued: fromMillis(row.submitted)}, nil
}

// Take is a request for jobs.
type Take struct {
	Endpoint string
	Worker   string        // unique among the workers of the endpoint
	Max      int           // maximum number of jobs
	Timeout  time.Duration // the endpoint's execution timeout, for jobs without their own; 0 is DefaultTimeout
	Lead     Lead          // the lead by which the worker was started: an outdated lead gets no job; zero skips the check

	committed bool // hand out jobs only after the commit
}

// Taken is a job that was handed to a worker.
type Taken struct {
	Ref
	Input    []byte
	Rest     []byte // nil if the submission had no other members
	Low      bool
	Retries  int
	Delay    time.Duration
	Deadline time.Time // end of the execution timeout
}

// Ref identifies one attempt of a worker to run a job.
type Ref struct {
	Endpoint string
	ID       string
	Worker   string
	Attempt  int
}
