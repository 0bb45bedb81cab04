package engine

import (
	"cmp"
	"context"
)

// Submit queues a job: (none) → IN_QUEUE. The job is durable when Submit returns.
func (e *Engine) Submit(ctx context.Context, n NewJob) (Job, error) {
	job, _, err := e.submit(ctx, n, false)
	return job, err
}

// SubmitAndWatch is Submit, and also returns a watch of the job's end. The caller must call the watch's Stop.
func (e *Engine) SubmitAndWatch(ctx context.Context, n NewJob) (Job, *Watch, error) {
	return e.submit(ctx, n, true)
}

func (e *Engine) submit(ctx context.Context, n NewJob, isWatched bool) (_ Job, watch *Watch, err error) {
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
	if isWatched {
		watch = e.watch(n.Endpoint, j.id, true)
	}
	v := j.view(0)
	q.add(j)
	q.record(event{}, effect{to: InQueue}, j)
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
		key: k, endpoint: n.Endpoint, id: n.id(k), state: InQueue, lowPriority: n.LowPriority, webhook: n.Webhook, owner: owner, timeout: n.Timeout.Milliseconds(), retention: n.retention().Milliseconds(),
		submittedAt: now, turn: now, queuedAt: now, expiresAt: end, deleteAt: end,
	}}
}
