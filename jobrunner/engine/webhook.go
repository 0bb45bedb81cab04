package engine

import (
	"context"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

type Call struct {
	Owner string
	URL   string
	Host  string
	Tries int // calls made before
	Job   Job
	Input []byte

	claimEnd int64
}

// Calls returns a channel with a buffer of one. It receives a value when a call may be due.
func (e *Engine) Calls() <-chan struct{} { return e.calls }

// CallQueue is the queue of an owner's calls for one endpoint.
type CallQueue struct {
	Owner, Endpoint string
	Next            time.Time // when the next call is due
}

// OwnerHost is an owner of webhooks and a host that they call.
type OwnerHost struct{ Owner, Host string }

// CallQueues returns the queues that have calls to hosts that aren't busy.
func (e *Engine) CallQueues(busy []OwnerHost) (queues []CallQueue) {
	for _, q := range e.loadedQueues() {
		q.mu.Lock()
		for owner, j := range q.nextCalls(busy) {
			queues = append(queues, CallQueue{owner, q.name, time.UnixMilli(j.callAt)})
		}
		q.mu.Unlock()
	}
	return queues
}

// nextCalls returns the job of each owner's next call to a host that isn't busy.
func (q *queue) nextCalls(busy []OwnerHost) map[string]*job {
	next := map[string]*job{}
	for key, calls := range q.calls {
		j := calls.first()
		if j == nil {
			delete(q.calls, key)
		} else if earliest := next[key.Owner]; !slices.Contains(busy, key) && (earliest == nil || j.callAt < earliest.callAt) {
			next[key.Owner] = j
		}
	}
	return next
}

// ClaimCall claims and returns the first due call of a queue to a host that isn't busy. When the
// claim ends, the call is due again, unless RecordCall was called. ClaimCall returns nil if no call is due.
func (e *Engine) ClaimCall(ctx context.Context, queue CallQueue, busy []OwnerHost, claim time.Duration) (*Call, error) {
	if err := e.commits.failure(); err != nil {
		return nil, err
	}
	q := e.loadedQueue(queue.Endpoint)
	if q == nil || !q.lockIfOpen() {
		return nil, nil
	}
	j, now := q.nextCalls(busy)[queue.Owner], e.now()
	if j == nil || j.callAt > now {
		q.unlock()
		return nil, nil
	}
	q.applyAt(j, event{kind: called, callAt: now + claim.Milliseconds()}, now)
	call := &Call{Owner: j.owner, URL: j.webhook, Host: j.host, Tries: j.callTries, Job: j.view(math.MaxInt32), Input: j.input, claimEnd: j.callAt}
	inputOnDisk := !j.hasInput
	if err := q.unlock().wait(); err != nil || e.store == nil {
		return call, err
	}
	result, err := e.store.job(ctx, queue.Endpoint, call.Job.ID, math.MaxInt32, 0)
	if err == nil {
		call.Job.Output, call.Job.Size, call.Job.Error = result.output, len(result.output), result.message
	}
	if err == nil && inputOnDisk {
		call.Input, _, err = e.store.input(ctx, result.key)
	}
	return call, err
}

// RecordCall records that a call was made. If next isn't zero, the call is repeated then.
func (e *Engine) RecordCall(c *Call, next time.Time) {
	q := e.loadedQueue(c.Job.Endpoint)
	if q == nil || !q.lockIfOpen() {
		return
	}
	if j := q.jobs[c.Job.ID]; j != nil && j.callAt == c.claimEnd { // otherwise the claim is over
		ev := event{kind: called, callMade: true}
		if !next.IsZero() {
			ev.callAt = next.UnixMilli()
		}
		q.applyAt(j, ev, e.now())
		q.tick(j)
	}
	q.unlock()
	notify.Signal(e.calls)
}

// hostOf returns the host of a webhook, or "" if the URL can't be called.
func hostOf(webhook string) string {
	u, err := url.Parse(webhook)
	if err != nil {
		return ""
	}
	return u.Host
}
