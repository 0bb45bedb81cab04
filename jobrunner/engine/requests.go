package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// AddRequests adds requests to a DRAFT batch and returns their ids. If it fails, it adds none.
func (e *Engine) AddRequests(ctx context.Context, endpoint, id string, inputs [][]byte) (b Batch, ids []string, err error) {
	b, err = e.changeBatch(ctx, endpoint, id, func(q *queue, b *batch, _ int64) error {
		if err := b.checkDraft(); err != nil {
			return err
		}
		ids, err = q.addRequests(b, inputs)
		return err
	})
	return b, ids, err
}

func (q *queue) addRequests(b *batch, inputs [][]byte) (ids []string, err error) {
	if b.view().Total+len(inputs) > MaxBatchRequests {
		return nil, &BatchRefused{Reason: fmt.Sprintf("a batch has at most %d requests: with these it would have more", MaxBatchRequests)}
	}
	e, size := q.engine, 0
	for _, input := range inputs {
		size += len(input) + jobSize
	}
	if err := e.memory.check(size, true); err != nil {
		return nil, err
	}
	q.batches[b.key] = b // before record, which counts the batch's requests
	q.recordBatch(b)     // before the requests: the caller waits for their commit
	jobs := make([]*job, len(inputs))
	for i, input := range inputs {
		j := NewJob{Endpoint: q.name, Input: input}.job(e.newKey(), e.now())
		j.state, j.batch, j.retention, j.expiresAt, j.deleteAt = draft, b.key, batchRetention.Milliseconds(), b.deleteAt, b.deleteAt
		q.add(j)
		jobs[i], ids = j, append(ids, j.id)
	}
	q.record(event{}, effect{to: draft}, jobs...)
	return ids, nil
}

func (e *Engine) RemoveRequest(ctx context.Context, endpoint, id, request string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(q *queue, b *batch, now int64) error {
		if err := b.checkDraft(); err != nil {
			return err
		}
		j := q.find(request)
		if j == nil || j.batch != b.key {
			return ErrNoRequest
		}
		q.applyAt(j, event{kind: removal}, now)
		return nil
	})
}

// reconcileBatches reconciles the batches of a locked queue, and returns when it must be called next, or never.
func (q *queue) reconcileBatches() (next int64) {
	next = never
	for _, b := range q.batches {
		next = min(next, q.reconcile(b))
	}
	return next
}

// reconcile makes the requests of a batch follow its state: it queues the requests of a FINALIZED batch, cancels
// the requests of a batch that ends, and removes an expired batch with all its requests. It returns when it must
// be called next, or never.
func (q *queue) reconcile(b *batch) (next int64) {
	now := q.engine.now()
	if b.deleteAt <= now {
		for _, j := range q.jobs {
			if j.batch == b.key {
				q.applyAt(j, event{kind: removal}, now)
			}
		}
		delete(q.batches, b.key)
		b.state = ""
		q.recordBatch(b)
		return never
	}
	if b.verdict == "" && b.state == BatchFinalized && b.endsAt <= now && b.unfinished() > 0 {
		b.verdict = BatchFailed
		q.recordBatch(b)
	}
	ev, states := event{kind: cancelled}, []State{draft, InQueue}
	switch {
	case b.verdict != "" && b.endsAt > 0: // cancel
	case b.verdict == "" && b.state == BatchFinalized:
		ev, states = event{kind: released, deleteAt: b.deleteAt}, []State{draft}
	default:
		return b.deleteAt
	}
	waiting := 0
	for _, s := range states {
		waiting += b.requests[s]
	}
	if waiting > 0 {
		for _, j := range q.requests(b.key, states) {
			q.apply(j, ev)
		}
	}
	if b.verdict == "" && b.endsAt > now {
		return b.endsAt
	}
	if b.verdict != "" {
		// All waiting requests are cancelled now. With endsAt 0, a request that is requeued later isn't cancelled.
		b.endsAt = 0
		q.recordBatch(b)
	}
	return b.deleteAt
}

// requests returns the requests of a batch, given by its key, that are in memory and in one of the states, the oldest first. If states is
// nil, it returns the requests in any state.
func (q *queue) requests(batch int64, states []State) (all []*job) {
	for _, j := range q.jobs {
		if j.batch == batch && (states == nil || slices.Contains(states, j.state)) {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b *job) int { return cmp.Compare(a.key, b.key) })
	return all
}

func page[T any](all []T, offset, limit int) []T {
	all = all[min(offset, len(all)):]
	return all[:min(limit, len(all))]
}

// Requests reads a page of a batch's requests, the oldest first, and their total number.
// It leaves out outputs and errors of more than maxOutput bytes. The size of a request includes such an error.
func (e *Engine) Requests(ctx context.Context, endpoint, id string, offset, limit, maxOutput int) (requests []Job, total int, err error) {
	b, err := e.Batch(ctx, endpoint, id)
	if err != nil {
		return nil, 0, err
	}
	var jobs []*job
	if e.store != nil {
		jobs, err = e.store.list(ctx, selectRequests, maxOutput, b.key, limit, offset)
	} else if q := e.loadedQueue(BatchQueue(endpoint)); q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		jobs = page(q.requests(b.key, nil), offset, limit)
	}
	for _, j := range jobs {
		r := j.view(maxOutput)
		if r.State == draft {
			r.State = InQueue
		}
		if len(r.Error) > maxOutput {
			r.Size, r.Error = r.Size+len(r.Error), ""
		}
		requests = append(requests, r)
	}
	return requests, b.Total, err
}
