package engine

import (
	"context"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Submit puts a job into its endpoint's queue: (none) → IN_QUEUE. The id is the
// client's to keep from the moment that Submit returns. Where a taker waits, the
// job that is next is taken for it in the same transaction.
func (e *Engine) Submit(ctx context.Context, n NewJob) (Job, error) {
	return e.submit(ctx, n, n.newID())
}

// SubmitAndWatch is Submit that watches for the job's end from its beginning. The
// caller ends the watch with Stop.
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
	var taker *place
	if e.canTake() {
		taker = e.hub.claim(n.Endpoint)
	}
	var next []Taken
	var h handoff
	if taker != nil {
		h.to, h.late = taker.assigned, taker.take.committed
		defer h.send(nil)
	}
	_, err := e.transition(ctx, e.db.WriteBehind, func(tx *sqldb.Tx) (changes []change, err error) {
		next = nil
		if err := tx.Room(len(n.Input)+len(n.Rest), sqldb.ForJobs); err != nil {
			return nil, err
		}
		if taker != nil {
			if err := e.lookForNext(tx, taker.take); err != nil {
				return nil, err
			}
		}
		err = e.insert(tx, row)
		if err == nil && taker != nil {
			next, changes, err = e.take(tx, taker.take)
			h.sendAhead(tx, next)
		}
		own := change{endpoint: n.Endpoint, id: id, low: n.Low, from: none, to: InQueue, due: row.gone,
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
	Max      int           // at most so many jobs
	Timeout  time.Duration // the endpoint's execution time-out, for jobs that have none; 0 is DefaultTimeout
	Lead     Lead          // of the worker's process: it gets no job of an endpoint that another process leads; the zero Lead isn't checked
	Lease    time.Duration // the worker counts as dead unless it reports within this time; 0 where it is watched by other means

	committed bool // no job is handed out ahead of the commit of its take
}

// Taken is a job in the hands of a worker.
type Taken struct {
	Ref
	Input    []byte
	Rest     []byte // nil where the submission had no other members
	Low      bool
	Retries  int
	Delay    time.Duration
	Deadline time.Time // the end of its execution time-out
}

// Ref names a job in the hands of a worker: this take, and no other of the
// same job.
type Ref struct {
	Endpoint string
	ID       string
	Worker   string
	Attempt  int
}
