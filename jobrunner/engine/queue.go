package engine

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"
)

// queue has jobs of an endpoint that this process leads. A job is in it if it is active, has a due webhook
// call, or has changes that aren't committed yet. If the database is in memory, queue has all jobs.
type queue struct {
	engine *Engine
	name   string
	epoch  int64 // of the leadership, on a shared database

	mu      sync.Mutex
	closed  bool // the endpoint was deleted, or this process no longer leads it
	jobs    map[string]*job
	ready   jobHeap                // IN_QUEUE, by row.turn
	timed   jobHeap                // by row.due
	calls   map[OwnerHost]*jobHeap // due webhook calls, by row.callAt
	takers  []*waiter              // the longest waiting first
	counts  Counts
	batches map[int64]*batch // of a batch queue
	evicted int              // counts the jobs that were evicted
	open    *commit          // has the changes since lock
}

// job is a job in memory.
type job struct {
	row
	queue       *queue
	input, rest []byte          // rest: the other members of the submission
	hasInput    bool            // input and rest are in memory
	inputSize   int             // of input and rest, in bytes
	output      []byte          // JSON or nil; only of a job that is active or not yet committed
	message     string          // the error; in memory as long as output
	chunks      []numberedChunk // unread, if the database is in memory
	outputSize  int             // of a job that was read without a large output
	host        string          // of the webhook
	change      *change         // that isn't committed, or nil
	places      [3]int          // position in each heap plus 1; 0 if the heap does not have the job
}

// jobHeap is a heap of jobs in one of three orders.
type jobHeap struct {
	order int
	jobs  []*job
}

const (
	byTurn = iota
	byDue
	byCall
)

var orders = [...]func(a, b *job) int{
	byTurn: func(a, b *job) int { return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.key, b.key)) },
	byDue:  func(a, b *job) int { return cmp.Compare(a.due(), b.due()) },
	byCall: func(a, b *job) int { return cmp.Compare(a.callAt, b.callAt) },
}

func (h *jobHeap) Len() int { return len(h.jobs) }

func (h *jobHeap) Less(a, b int) bool { return orders[h.order](h.jobs[a], h.jobs[b]) < 0 }

func (h *jobHeap) Swap(a, b int) {
	h.jobs[a], h.jobs[b] = h.jobs[b], h.jobs[a]
	h.jobs[a].places[h.order], h.jobs[b].places[h.order] = a+1, b+1
}

func (h *jobHeap) Push(x any) {
	j := x.(*job)
	h.jobs = append(h.jobs, j)
	j.places[h.order] = len(h.jobs)
}

func (h *jobHeap) Pop() any {
	last := len(h.jobs) - 1
	j := h.jobs[last]
	h.jobs[last] = nil
	h.jobs = h.jobs[:last]
	j.places[h.order] = 0
	return j
}

// set adds a job or moves it to its place if it belongs to the heap, and otherwise removes it.
func (h *jobHeap) set(j *job, belongs bool) {
	switch place := j.places[h.order]; {
	case belongs && place == 0:
		heap.Push(h, j)
	case belongs:
		heap.Fix(h, place-1)
	case place > 0:
		heap.Remove(h, place-1)
	}
}

func (h *jobHeap) first() *job {
	if len(h.jobs) == 0 {
		return nil
	}
	return h.jobs[0]
}

func newQueue(e *Engine, name string, epoch int64) *queue {
	return &queue{engine: e, name: name, epoch: epoch, jobs: map[string]*job{}, calls: map[OwnerHost]*jobHeap{}, batches: map[int64]*batch{},
		ready: jobHeap{order: byTurn}, timed: jobHeap{order: byDue}}
}

// lockIfOpen locks the queue for an operation, which the caller ends with unlock. It returns false if the queue is closed.
func (q *queue) lockIfOpen() bool {
	q.mu.Lock()
	if !q.closed {
		return true
	}
	q.mu.Unlock()
	return false
}

// unlock ends an operation that Engine.lock or lockIfOpen began. It returns the commit of its changes, or nil.
func (q *queue) unlock() *commit {
	q.serve()
	c := q.open
	q.open = nil
	q.mu.Unlock()
	if c != nil && q.engine.store == nil {
		q.engine.publish(c)
	}
	return c
}

// find returns a job that clients see, or nil.
func (q *queue) find(id string) *job {
	j := q.jobs[id]
	if j == nil {
		return nil
	}
	q.tick(j)
	if !j.visible(q.engine.now()) {
		return nil
	}
	return j
}

// tick makes a due transition of a job.
func (q *queue) tick(j *job) { q.applyAt(j, event{kind: timePasses}, q.engine.now()) }

func (q *queue) apply(j *job, ev event) effect {
	q.tick(j)
	return q.applyAt(j, ev, q.engine.now())
}

func (q *queue) applyAt(j *job, ev event, now int64) effect {
	fx := j.apply(ev, now)
	if !fx.ok {
		return fx
	}
	before := j.size()
	if fx.clearsResult {
		j.output, j.outputSize, j.message, j.chunks = nil, 0, "", nil
	}
	if fx.setsResult {
		j.output, j.message = ev.output, fx.message
	}
	if len(ev.chunks) > 0 && q.engine.store == nil {
		j.chunks = append(j.chunks, numberChunks(ev.chunks, j.streamed)...)
	}
	q.engine.memory.use(j.size() - before)
	q.record(ev, fx, j)
	return fx
}

// record moves jobs, and adds the effect to the changes that are committed next, in one commit.
func (q *queue) record(ev event, fx effect, jobs ...*job) {
	c := &q.engine.commits
	if q.engine.store != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	for _, j := range jobs {
		q.move(j, fx)
		q.open = c.add(j, ev.chunks, fx)
		q.engine.wake(j.due())
	}
}

// move puts a changed job into the right heaps, and counts the transition.
func (q *queue) move(j *job, fx effect) {
	if fx.from != fx.to {
		q.counts.add(fx.from, j.lowPriority, -1)
		q.counts.add(fx.to, j.lowPriority, +1)
	}
	if fx.retry {
		q.counts.Retried++
	}
	if b := q.batches[j.batch]; b != nil {
		b.requests[fx.from]--
		b.requests[fx.to]++
	}
	q.place(j)
	if j.state == absent {
		delete(q.jobs, j.id)
		q.engine.memory.use(-j.size())
	}
}

// place adds a job to the heaps to which it belongs, and removes it from the other heaps.
func (q *queue) place(j *job) {
	q.ready.set(j, j.state == InQueue)
	q.timed.set(j, j.state != absent && j.due() < never && (!j.state.Terminal() || q.engine.store == nil))
	if j.webhook == "" {
		return
	}
	key := OwnerHost{j.owner, j.host}
	if q.calls[key] == nil {
		q.calls[key] = &jobHeap{order: byCall}
	}
	q.calls[key].set(j, j.state.Terminal() && j.callAt > 0)
}

// add adds a job that was submitted, or read from the store.
func (q *queue) add(j *job) {
	j.queue = q
	if j.webhook != "" {
		j.host = hostOf(j.webhook)
	}
	q.jobs[j.id] = j
	q.engine.memory.use(j.size())
}

func (j *job) size() int {
	return jobSize + len(j.input) + len(j.rest) + len(j.output) + len(j.message) + len(j.webhook) + sizeOf(j.chunks)
}

// jobSize is the size of a job without its input and output.
const jobSize = 700

func sizeOf(chunks []numberedChunk) (n int) {
	for _, c := range chunks {
		n += len(c.chunk)
	}
	return n
}

// take takes jobs for a worker: IN_QUEUE → IN_PROGRESS. A job that was lost is taken alone: a worker loses
// all jobs of an answer that it can't read, whichever input is the cause.
func (q *queue) take(t Take) (jobs []*job) {
	if t.Leadership.Epoch != 0 && t.Leadership.Epoch != q.epoch {
		return nil
	}
	for size := 0; len(jobs) < t.Max && q.ready.Len() > 0; {
		j := q.ready.first()
		if size += j.inputSize; len(jobs) > 0 && (size > maxTake || j.retries > 0 || jobs[0].retries > 0) {
			break
		}
		if fx := q.apply(j, event{kind: taken, worker: t.Worker, timeout: t.Timeout.Milliseconds()}); fx.ok {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// waiter is a taker that waits for jobs.
type waiter struct {
	take Take
	jobs chan []Taken // has a buffer of one
}

// serve gives the queued jobs to the waiting takers.
func (q *queue) serve() {
	if q.ready.Len() == 0 || q.engine.commits.failure() != nil {
		return
	}
	q.takers = slices.DeleteFunc(q.takers, func(w *waiter) (served bool) {
		jobs := q.take(w.take)
		if len(jobs) > 0 {
			w.jobs <- takenOf(jobs)
		}
		return len(jobs) > 0
	})
}

// takenOf describes jobs for their worker.
func takenOf(jobs []*job) []Taken {
	all := make([]Taken, len(jobs))
	for i, j := range jobs {
		all[i] = Taken{
			Ref:   Ref{Endpoint: j.endpoint, ID: j.id, Worker: j.worker, Attempt: j.attempt},
			Input: j.input, Rest: j.rest, LowPriority: j.lowPriority, Retries: j.retries, Delay: j.delay(), Deadline: time.UnixMilli(j.deadline),
		}
		if !j.hasInput {
			all[i].storedKey = j.key
		}
	}
	return all
}

// view returns the job's state for clients. It leaves out an output of more than maxOutput bytes.
func (j *job) view(maxOutput int) Job {
	v := Job{
		Endpoint: j.endpoint, ID: j.id, State: j.state, Worker: j.worker, Retries: j.retries, Output: j.output, Error: j.message, Size: max(j.outputSize, len(j.output)), key: j.key,
		Queued: time.UnixMilli(j.queuedAt), Delay: j.delay(), Execution: j.execution(),
	}
	if j.startedAt > 0 {
		v.Started = time.UnixMilli(j.startedAt)
	}
	if j.finishedAt > 0 {
		v.Finished = time.UnixMilli(j.finishedAt)
	}
	if v.Size > maxOutput {
		v.Output = nil
	}
	return v
}

// newest merges the visible jobs of the queue with found, the newest jobs of other queues, and returns the newest n.
func (q *queue) newest(found []Job, n, maxOutput int) []Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.engine.now()
	for _, j := range q.jobs {
		if !j.visible(now) || j.state == draft || n == 0 || len(found) == n && found[n-1].key > j.key {
			continue
		}
		at, _ := slices.BinarySearchFunc(found, j.key, func(a Job, k int64) int { return cmp.Compare(k, a.key) })
		found = slices.Insert(found, at, j.view(maxOutput))
		found = found[:min(n, len(found))]
	}
	return found
}
