package engine

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

// hub wakes those who wait for something to happen to a job, or for a job to
// take. What it sends are hints: who is woken looks for himself, and who wants
// to miss nothing begins to watch before he looks.
type hub struct {
	mu     sync.Mutex
	jobs   map[jobKey]map[*Watch]bool
	takers map[string]*list.List // of *place, the longest waiting first
}

type jobKey struct{ endpoint, id string }

// Watch is a subscription to what happens to one job.
type Watch struct {
	// C receives when the job changed. It holds one hint however many changes
	// there were.
	C    <-chan struct{}
	c    chan struct{}
	end  bool                // it is about the job's end alone
	job  atomic.Pointer[Job] // as it ended
	look atomic.Bool         // the job may have ended in a way that only the database tells
	hub  *hub
	key  jobKey
	once sync.Once
}

// Watch begins to watch a job, which need not exist. The caller ends it with
// Stop.
func (e *Engine) Watch(endpoint, id string) *Watch { return e.watch(endpoint, id, false) }

func (e *Engine) watch(endpoint, id string, end bool) *Watch {
	c := make(chan struct{}, 1)
	w := &Watch{C: c, c: c, end: end, hub: &e.hub, key: jobKey{endpoint, id}}
	h := &e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.jobs == nil {
		h.jobs = map[jobKey]map[*Watch]bool{}
	}
	if h.jobs[w.key] == nil {
		h.jobs[w.key] = map[*Watch]bool{}
	}
	h.jobs[w.key][w] = true
	return w
}

// End is the job as it ended, where that was by a result that this process
// recorded since the watch began; look is true where the job has to be read to
// know whether it ended, once for each time.
func (w *Watch) End() (job *Job, look bool) {
	return w.job.Load(), w.look.Swap(false)
}

// changed takes note of a change. Changes arrive after they were committed, and
// not always in their order: an end counts whatever comes behind it.
func (w *Watch) changed(c change) {
	switch {
	case c.job != nil:
		w.job.CompareAndSwap(nil, c.job)
	case c.to == InProgress, c.from == none && c.to == InQueue:
		if w.end {
			return
		}
	default:
		w.look.Store(true)
	}
	notify.Signal(w.c)
}

// Stop ends the subscription.
func (w *Watch) Stop() {
	w.once.Do(func() {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		delete(w.hub.jobs[w.key], w)
		if len(w.hub.jobs[w.key]) == 0 {
			delete(w.hub.jobs, w.key)
		}
	})
}

// changed wakes whom a change concerns. A job that waits wakes one taker.
func (h *hub) changed(c change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.jobs[jobKey{c.endpoint, c.id}] {
		w.changed(c)
	}
	if c.to == InQueue && !c.dispatched {
		h.wakeTaker(c.endpoint)
	}
}

// waiting tells how many takers each endpoint has in its line.
func (h *hub) waiting() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := make(map[string]int, len(h.takers))
	for endpoint, line := range h.takers {
		n[endpoint] = line.Len()
	}
	return n
}

// lookAgain has everybody who watches a job look at it.
func (h *hub) lookAgain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, watches := range h.jobs {
		for w := range watches {
			w.look.Store(true)
			notify.Signal(w.c)
		}
	}
}

// place is that of a taker in the line of an endpoint.
type place struct {
	take     Take
	woken    chan struct{} // that there may be a job
	assigned chan []Taken  // what a submission took for it; none: it was in vain

	// guarded by hub.mu
	at      *list.Element // nil once it is out of the line
	ready   bool          // the taker has looked, and there was no job
	claimed bool
}

// enter puts a taker at the end of an endpoint's line.
func (h *hub) enter(t Take) *place {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.takers == nil {
		h.takers = map[string]*list.List{}
	}
	if h.takers[t.Endpoint] == nil {
		h.takers[t.Endpoint] = list.New()
	}
	p := &place{take: t, woken: make(chan struct{}, 1), assigned: make(chan []Taken, 1)}
	p.at = h.takers[t.Endpoint].PushBack(p)
	return p
}

// isInLine tells whether a taker is still in the line, to take what it says.
func (h *hub) isInLine(p *place, t Take) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.at != nil && p.take == t
}

// ready says that the taker found no job: from now on a submission may take one
// for it.
func (h *hub) ready(p *place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.ready = true
}

// claim takes the one who waits longest out of the line, for a submission that
// takes a job for it, and then says so by give; nil where nobody waits.
func (h *hub) claim(endpoint string) *place {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := h.takers[endpoint]
	if line == nil {
		return nil
	}
	p := line.Front().Value.(*place)
	if !p.ready {
		return nil
	}
	h.remove(p)
	p.claimed = true
	return p
}

// leave takes a taker out of the line. One that was woken meanwhile, and did
// not look, passes the hint on. It is true where a submission claimed the taker,
// who then has to receive what is given.
func (h *hub) leave(p *place) (claimed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.at != nil {
		h.remove(p)
		return false
	}
	select {
	case <-p.woken:
		h.wakeTaker(p.take.Endpoint)
	default:
	}
	return p.claimed
}

// wake wakes the taker that waits longest.
func (h *hub) wake(endpoint string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeTaker(endpoint)
}

func (h *hub) wakeTaker(endpoint string) {
	line := h.takers[endpoint]
	if line == nil {
		return
	}
	p := line.Front().Value.(*place)
	h.remove(p)
	notify.Signal(p.woken)
}

func (h *hub) remove(p *place) {
	line := h.takers[p.take.Endpoint]
	line.Remove(p.at)
	p.at = nil
	if line.Len() == 0 {
		delete(h.takers, p.take.Endpoint)
	}
}
