package engine

import (
	"context"
	"slices"
	"time"
)

type Take struct {
	Endpoint   string
	Worker     string        // unique among the workers of the endpoint
	Max        int           // maximum number of jobs
	Timeout    time.Duration // the endpoint's execution timeout, for jobs without their own; 0 is DefaultTimeout
	Leadership Leadership    // of the node when it started the worker: a former leader gets no job; zero skips the check
}

// Taken is a job that was handed to a worker.
type Taken struct {
	Ref
	Input    []byte
	Rest     []byte // the other members of the submission, or nil
	Retries  int
	Delay    time.Duration // time in the queue
	Deadline time.Time     // end of the execution timeout

	LowPriority bool

	storedKey int64 // key of a job whose input has to be read from the store, or 0
}

// Ref identifies one attempt of a worker to run a job.
type Ref struct {
	Endpoint string
	ID       string
	Worker   string
	Attempt  int
}

// loadInputs adds the inputs that aren't in memory. If it fails, it returns the jobs to the queue.
func (e *Engine) loadInputs(ctx context.Context, jobs []Taken) ([]Taken, error) {
	for i, job := range jobs {
		if job.storedKey == 0 {
			continue
		}
		var err error
		if jobs[i].Input, jobs[i].Rest, err = e.store.input(ctx, job.storedKey); err != nil {
			for _, job := range jobs {
				e.report(ctx, job.Ref, Returned(), nil) // fails if the job is gone
			}
			return nil, err
		}
	}
	return jobs, nil
}

// Take takes the next jobs for a worker: IN_QUEUE → IN_PROGRESS. If the queue is empty, it waits until
// ctx ends. The longest waiting caller gets the next job. The take is committed soon after.
func (e *Engine) Take(ctx context.Context, t Take) ([]Taken, error) {
	q, jobs, err := e.takeQueued(ctx, t)
	if err != nil {
		return nil, err
	}
	if len(jobs) > 0 {
		q.unlock()
		return e.loadInputs(ctx, jobs)
	}
	w := &waiter{t, make(chan []Taken, 1)}
	q.takers = append(q.takers, w)
	q.unlock()
	select {
	case jobs = <-w.jobs:
	case <-ctx.Done():
		q.mu.Lock()
		q.takers = slices.DeleteFunc(q.takers, func(other *waiter) bool { return other == w }) // a no-op if the taker has got jobs
		q.mu.Unlock()
		select {
		case jobs = <-w.jobs:
		default:
			return nil, ctx.Err()
		}
	}
	if jobs == nil { // the queue was closed
		return nil, ErrNotLeader
	}
	return e.loadInputs(context.WithoutCancel(ctx), jobs)
}

// takeQueued takes jobs that are in the queue, and returns the queue locked.
func (e *Engine) takeQueued(ctx context.Context, t Take) (*queue, []Taken, error) {
	for n, open := e.commits.size(); n > maxOpen; n, open = e.commits.size() { // n is the number of changes in open, the current commit
		if err := open.wait(); err != nil {
			return nil, nil, err
		}
	}
	if err := e.commits.failure(); err != nil {
		return nil, nil, err
	}
	q, err := e.lock(ctx, t.Endpoint)
	if err != nil {
		return nil, nil, err
	}
	return q, takenOf(q.take(t)), nil
}
