package engine

import (
	"context"
	"slices"
)

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
