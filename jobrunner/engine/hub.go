package engine

import (
	"container/list"
	"sync"
)

// hub wakes those who wait for something to happen to a job, or for a job to
// take. What it sends are hints: who is woken looks for himself, and who wants
// to miss nothing begins to watch before he looks.
type hub struct {
	mu     sync.Mutex
	jobs   map[jobKey]map[*Watch]bool
	takers map[string]*list.List // of *taker, the longest waiting first
}

type jobKey struct{ endpoint, id string }

// Watch is a subscription to what happens to one job.
type Watch struct {
	// C receives when the job changed. It holds one hint however many changes
	// there were.
	C    <-chan struct{}
	c    chan struct{}
	hub  *hub
	key  jobKey
	once sync.Once
}

// Watch begins to watch a job, which need not exist. The caller ends it with
// Stop.
func (e *Engine) Watch(endpoint, id string) *Watch {
	c := make(chan struct{}, 1)
	w := &Watch{C: c, c: c, hub: &e.hub, key: jobKey{endpoint, id}}
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
		hint(w.c)
	}
	if c.to == InQueue {
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
			hint(w.c)
		}
	}
}

// taker waits for a job of an endpoint.
type taker struct {
	c     chan struct{}
	place *list.Element // nil once woken
}

// await puts a taker at the end of an endpoint's line.
func (h *hub) await(endpoint string) *taker {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.takers == nil {
		h.takers = map[string]*list.List{}
	}
	if h.takers[endpoint] == nil {
		h.takers[endpoint] = list.New()
	}
	t := &taker{c: make(chan struct{}, 1)}
	t.place = h.takers[endpoint].PushBack(t)
	return t
}

// leave takes a taker out of the line. One that was woken meanwhile, and did
// not look, passes the hint on.
func (h *hub) leave(endpoint string, t *taker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.place != nil {
		h.remove(endpoint, t)
		return
	}
	select {
	case <-t.c:
		h.wakeTaker(endpoint)
	default:
	}
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
	t := line.Front().Value.(*taker)
	h.remove(endpoint, t)
	hint(t.c)
}

func (h *hub) remove(endpoint string, t *taker) {
	line := h.takers[endpoint]
	line.Remove(t.place)
	t.place = nil
	if line.Len() == 0 {
		delete(h.takers, endpoint)
	}
}

func hint(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
