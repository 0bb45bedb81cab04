package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Get reads a job. It returns ErrNotFound if the job doesn't exist or has expired.
func (e *Engine) Get(ctx context.Context, endpoint, id string) (Job, error) {
	return e.GetUpTo(ctx, endpoint, id, math.MaxInt32)
}

// GetUpTo is Get, but leaves out an output of more than maxOutput bytes. It waits until the
// job's changes are stored. If their commit fails, it reads the stored state.
func (e *Engine) GetUpTo(ctx context.Context, endpoint, id string, maxOutput int) (Job, error) {
	outage := false
	for q := e.loadedQueue(endpoint); q != nil && !outage && q.lockIfOpen(); q = e.loadedQueue(endpoint) {
		j := q.find(id)
		if j == nil || j.state.Terminal() && e.store != nil && j.change == nil {
			q.unlock() // the store has the job; or it has ended, and is in memory without its output, for its webhook call
			break
		}
		ch, job := j.change, j.view(maxOutput)
		q.unlock()
		if ch == nil {
			return job, nil
		}
		outage = ch.commit.wait() != nil
	}
	if e.store == nil {
		return Job{}, ErrNotFound
	}
	j, err := e.store.job(ctx, endpoint, id, maxOutput, e.now())
	if err != nil {
		return Job{}, err
	}
	if !outage { // during an outage, a result from before the job's timeout may wait for its commit
		j.passTime(e.now())
	}
	return j.view(maxOutput), nil
}

// Newest reads the newest n jobs of an endpoint, or of all endpoints for "", the newest first.
// It leaves out outputs of more than maxOutput bytes.
func (e *Engine) Newest(ctx context.Context, endpoint string, n, maxOutput int) (jobs []Job, err error) {
	if e.store == nil {
		for _, q := range e.loadedQueues() {
			if endpoint == q.name || endpoint == "" && !IsBatchQueue(q.name) {
				jobs = q.newest(jobs, n, maxOutput)
			}
		}
		return jobs, nil
	}
	_ = e.commits.flush() // if it fails, the stored states are listed
	query, args := newestJobs, []any{maxOutput, e.now(), n}
	if endpoint != "" {
		query, args = newestOfEndpoint, slices.Insert(args, 1, any(endpoint))
	}
	found, err := e.store.list(ctx, query, args...)
	for _, j := range found {
		j.passTime(e.now())
		jobs = append(jobs, j.view(maxOutput))
	}
	return jobs, err
}

// SetTTL sets a job's time to live, which begins at its submission. If it is over already, the job expires at once.
func (e *Engine) SetTTL(ctx context.Context, endpoint, id string, ttl time.Duration) error {
	_, err := e.change(ctx, endpoint, id, event{kind: ttlChanged, ttl: ttl.Milliseconds()})
	return err
}

// Cancel cancels a job: IN_QUEUE, IN_PROGRESS → CANCELLED. It returns an ended job unchanged.
func (e *Engine) Cancel(ctx context.Context, endpoint, id string) (Job, error) {
	return e.change(ctx, endpoint, id, event{kind: cancelled})
}

// NotRetryable rejects the retry of a job that is neither FAILED nor TIMED_OUT.
type NotRetryable struct{ State State }

func (e *NotRetryable) Error() string {
	return fmt.Sprintf("only a job that is %s or %s can be retried; this one is %s", Failed, TimedOut, e.State)
}

// Retry requeues a job whose retention hasn't ended, with the same id and input:
// FAILED, TIMED_OUT → IN_QUEUE. It deletes the result and a pending webhook call. If the job
// has another state, it returns *NotRetryable.
func (e *Engine) Retry(ctx context.Context, endpoint, id string) (Job, error) {
	return e.change(ctx, endpoint, id, event{kind: retried})
}

// change applies a client's event to a job, and returns the job.
func (e *Engine) change(ctx context.Context, endpoint, id string, ev event) (Job, error) {
	// A cancellation takes effect even if it can't be stored yet, because it frees a worker, and space on a full disk.
	if err := e.commits.failure(); err != nil && ev.kind != cancelled {
		return Job{}, err
	}
	q, j, err := e.lockJob(ctx, endpoint, id)
	if err != nil {
		return Job{}, err
	}
	fx := q.apply(j, ev)
	q.tick(j) // a new ttl may be over already
	v := j.view(math.MaxInt32)
	var pending *commit // stores the job's state, which may have changed before
	if j.change != nil {
		pending = j.change.commit
	} else if e.store != nil {
		q.evict(j) // nothing is left to store: an ended job leaves the memory again
	}
	q.unlock()
	if err := pending.wait(); err != nil {
		return Job{}, err
	}
	switch {
	case v.State == absent && ev.kind != ttlChanged: // the job has expired just now
		return Job{}, ErrNotFound
	case ev.kind == retried && !fx.ok:
		return Job{}, &NotRetryable{v.State}
	case v.State.Terminal():
		v, err = e.Get(ctx, endpoint, id)                              // with its output
		if err == nil && ev.kind == cancelled && !v.State.Terminal() { // another client has just retried the job
			return e.change(ctx, endpoint, id, ev)
		}
	}
	return v, err
}

// lockJob locks the queue of a job. An ended job is read from the store.
func (e *Engine) lockJob(ctx context.Context, endpoint, id string) (*queue, *job, error) {
	for {
		q, err := e.lock(ctx, endpoint)
		if err != nil {
			return nil, nil, err
		}
		if j := q.find(id); j != nil {
			return q, j, nil
		}
		evicted := q.evicted
		if _, known := q.jobs[id]; known || e.store == nil {
			q.unlock()
			return nil, nil, ErrNotFound
		}
		q.unlock()
		j, err := e.store.job(ctx, endpoint, id, 0, e.now())
		if err != nil {
			return nil, nil, err
		}
		q.mu.Lock()
		if !q.closed && q.jobs[id] == nil && q.evicted == evicted { // otherwise the row may be out of date
			if !j.state.Terminal() { // the job's deletion isn't stored yet
				q.unlock()
				return nil, nil, ErrNotFound
			}
			q.add(j)
			return q, j, nil
		}
		q.unlock()
	}
}

// Purge deletes the jobs in an endpoint's queue and returns how many: IN_QUEUE → (none).
// Jobs that are queued or taken after its start stay. If it fails, the remaining jobs stay, too.
func (e *Engine) Purge(ctx context.Context, endpoint string) (removed int, err error) {
	if err := e.commits.flushUnlessDiskFull(); err != nil {
		return 0, err
	}
	q, err := e.lock(ctx, endpoint)
	if err != nil {
		return 0, err
	}
	waiting, start := slices.Clone(q.ready.jobs), e.now()
	q.unlock()
	for slice := range slices.Chunk(waiting, maxSlice) {
		if !q.lockIfOpen() {
			return removed, ErrNotLeader
		}
		for _, j := range slice {
			if j.state != InQueue || j.turn > start {
				continue
			}
			if q.tick(j); j.state == InQueue {
				q.applyAt(j, event{kind: removal}, e.now())
				removed++
			}
		}
		if err := q.unlock().wait(); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// maxSlice bounds the jobs that one step of a bulk change changes, so that others don't wait for long.
const maxSlice = 64

// Drain reads a job and removes the unread chunks from its stream, in order. A chunk is {"output": …}, with
// "metrics" if the handler gave some. An element of chunks may have several small chunks, separated by
// commas. chunks has at most limit bytes, or one larger element. If more is true, the stream has further
// chunks, even if the job has ended. The job lacks an output of more than SmallOutput bytes.
func (e *Engine) Drain(ctx context.Context, endpoint, id string, limit int) (job Job, chunks [][]byte, more bool, err error) {
	// Read the state first, so that all chunks are included if the job has ended.
	if job, err = e.GetUpTo(ctx, endpoint, id, SmallOutput); err != nil {
		return Job{}, nil, false, err
	}
	var all []numberedChunk
	if e.store != nil {
		all, more, err = e.store.drain(ctx, job.key, limit)
	} else {
		all, more, err = e.drainMemory(ctx, endpoint, id, limit)
	}
	for _, n := range all {
		chunks = append(chunks, n.chunk)
	}
	return job, chunks, more, err
}

func (e *Engine) drainMemory(ctx context.Context, endpoint, id string, limit int) (all []numberedChunk, more bool, err error) {
	q, j, err := e.lockJob(ctx, endpoint, id)
	if err != nil {
		return nil, false, err
	}
	defer q.unlock()
	n, size := 0, 0
	for n < len(j.chunks) && (n == 0 || size+len(j.chunks[n].chunk) <= limit) {
		size += len(j.chunks[n].chunk)
		n++
	}
	all, j.chunks = j.chunks[:n], j.chunks[n:]
	e.memory.use(-size)
	return all, len(j.chunks) > 0, nil
}

// Unread counts a job's unread chunks.
func (e *Engine) Unread(ctx context.Context, endpoint, id string) (n int, err error) {
	if e.store != nil {
		job, err := e.GetUpTo(ctx, endpoint, id, 0)
		if err == nil {
			err = e.DB.Read(ctx, func(r *sqldb.Reader) error { return r.QueryRow(countUnread, job.key, endpoint, job.key).Scan(&n) })
		}
		return n, err
	}
	q, j, err := e.lockJob(ctx, endpoint, id)
	if err != nil {
		return 0, err
	}
	defer q.unlock()
	if len(j.chunks) > 0 {
		n = int(j.streamed + 1 - j.chunks[0].seq)
	}
	return n, nil
}

// DropEndpoint deletes the jobs and batches of a deleted endpoint. Workers that run its
// jobs learn from their next report that they must stop.
func (e *Engine) DropEndpoint(ctx context.Context, endpoint string) error {
	for _, name := range []string{BatchQueue(endpoint), endpoint} {
		if q := e.loadedQueue(name); q != nil {
			q.mu.Lock()
			for _, j := range q.jobs {
				q.applyAt(j, event{kind: removal}, e.now())
			}
			q.close()
			q.unlock()
		}
		if e.store == nil {
			continue
		}
		if err := e.commits.flushUnlessDiskFull(); err != nil {
			return err
		}
		e.spool.remove(func(spooled *entry) bool { return spooled.Ref.Endpoint == name })
		for n := maxSlice; n == maxSlice; {
			var err error
			if n, err = e.store.deleteJobs(ctx, deleteOfEndpoint, name, maxSlice); err != nil {
				return err
			}
		}
		for _, statement := range []string{deleteBatchesOf, deleteLeadership, deleteCounts} { // counts last: by them the next start finds what is left
			if _, err := e.exec(ctx, statement, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// close closes the locked queue. Later operations use a new queue, or another process that leads the endpoint.
func (q *queue) close() {
	q.closed = true
	for _, w := range q.takers {
		close(w.jobs)
	}
	q.takers = nil
	q.engine.mu.Lock()
	defer q.engine.mu.Unlock()
	if q.engine.queues[q.name] == q {
		delete(q.engine.queues, q.name)
	}
}
