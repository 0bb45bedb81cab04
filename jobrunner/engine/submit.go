package engine

import (
	"cmp"
	"context"
	"time"
)

// Submit queues a job: (none) → IN_QUEUE. The job is durable when Submit returns.
func (e *Engine) Submit(ctx context.Context, n NewJob) (Job, error) {
	job, watch, err := e.SubmitAndWatch(ctx, n)
	if err == nil {
		watch.Stop()
	}
	return job, err
}

// SubmitAndWatch is Submit, and also returns a watch of the job's end. The caller must call the watch's Stop.
func (e *Engine) SubmitAndWatch(ctx context.Context, n NewJob) (Job, *Watch, error) {
	if err := ctx.Err(); err != nil {
		return Job{}, nil, err
	}
	j := n.job(e.newKey(), e.now())
	if err := cmp.Or(e.commits.failure(), e.memory.check(j.size(), true)); err != nil {
		return Job{}, nil, err
	}
	q, err := e.lock(ctx, n.Endpoint)
	if err != nil {
		return Job{}, nil, err
	}
	watch := e.watch(n.Endpoint, j.id, true)
	v := j.view(0)
	q.add(j)
	q.record(j, event{}, effect{to: InQueue})
	if err := q.unlock().wait(); err != nil {
		watch.Stop()
		return Job{}, nil, err
	}
	return v, watch, nil
}

func (n NewJob) job(k, now int64) *job {
	end := now + cmp.Or(n.TTL, DefaultTTL).Milliseconds()
	owner := n.Owner
	if n.Webhook == "" {
		owner = ""
	}
	return &job{input: n.Input, rest: n.Rest, hasInput: true, inputSize: len(n.Input) + len(n.Rest), row: row{
		key: k, endpoint: n.Endpoint, id: n.id(k), state: InQueue, lowPriority: n.LowPriority, webhook: n.Webhook, owner: owner, execution: n.Timeout.Milliseconds(), retention: n.retention().Milliseconds(),
		submittedAt: now, turn: now, queuedAt: now, expiresAt: end, deleteAt: end,
	}}
}

// Take is a request for jobs.
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
