package engine

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

// hub wakes goroutines that wait for a change of a job, or for a job to take. It sends
// only hints: a goroutine that is woken has to check the database, and must start to
// watch before its first check.
type hub struct {
	mu      sync.Mutex
	watches map[jobKey]map[*Watch]bool
	takers  map[string]*list.List // by endpoint, of *waiter, the longest waiting first
}

type jobKey struct{ endpoint, id string }

// Watch is a subscription to the changes of one job.
type Watch struct {
	// C receives a value after a change. It buffers one value, however many changes there
	// were.
	C       <-chan struct{}
	c       chan struct{}
	endOnly bool                // ignores submissions and starts
	job     atomic.Pointer[Job] // the ended job
	recheck atomic.Bool         // the job may have ended, which only the database knows
	hub     *hub
	key     jobKey
	once    sync.Once
}

// Watch subscribes to a job, which need not exist. The caller must call Stop.
func (e *Engine) Watch(endpoint, id string) *Watch { return e.watch(endpoint, id, false) }

func (e *Engine) watch(endpoint, id string, endOnly bool) *Watch {
	c := make(chan struct{}, 1)
	w := &Watch{C: c, c: c, endOnly: endOnly, hub: &e.hub, key: jobKey{endpoint, id}}
	h := &e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches == nil {
		h.watches = map[jobKey]map[*Watch]bool{}
	}
	if h.watches[w.key] == nil {
		h.watches[w.key] = map[*Watch]bool{}
	}
	h.watches[w.key][w] = true
	return w
}

// End returns the ended job if this process has recorded its result since the watch began.
// It reports recheck once after each change by which the job may have ended otherwise: the
// caller then reads the job.
func (w *Watch) End() (job *Job, recheck bool) {
	return w.job.Load(), w.recheck.Swap(false)
}

// changed records a change. Changes may arrive out of order, so a change that arrives after
// the end is ignored.
func (w *Watch) changed(c change) {
	switch {
	case c.job != nil:
		w.job.CompareAndSwap(nil, c.job)
	case c.to == InProgress, c.from == absent && c.to == InQueue:
		if w.endOnly {
			return
		}
	default:
		w.recheck.Store(true)
	}
	notify.Signal(w.c)
}

// Stop ends the subscription.
func (w *Watch) Stop() {
	w.once.Do(func() {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		delete(w.hub.watches[w.key], w)
		if len(w.hub.watches[w.key]) == 0 {
			delete(w.hub.watches, w.key)
		}
	})
}

// changed wakes the watches of the job and, if the job was queued, one taker.
func (h *hub) changed(c change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watches[jobKey{c.endpoint, c.id}] {
		w.changed(c)
	}
	if c.to == InQueue && !c.dispatched {
		h.wakeTaker(c.endpoint)
	}
}

// waiting counts the waiting takers by endpoint.
func (h *hub) waiting() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := make(map[string]int, len(h.takers))
	for endpoint, line := range h.takers {
		n[endpoint] = line.Len()
	}
	return n
}

// recheckAll wakes all watches.
func (h *hub) recheckAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, watches := range h.watches {
		for w := range watches {
			w.recheck.Store(true)
			notify.Signal(w.c)
		}
	}
}

// waiter is a taker in an endpoint's line of waiting takers.
type waiter struct {
	take     Take
	woken    chan struct{} // signals that a job may be queued
	assigned chan []Taken  // jobs that a submission took for the taker; empty if it failed

	// guarded by hub.mu
	element *list.Element // nil once it has left the line
	ready   bool          // the taker found the queue empty
	claimed bool
}

// enter adds a taker to the end of its endpoint's line.
func (h *hub) enter(t Take) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.takers == nil {
		h.takers = map[string]*list.List{}
	}
	if h.takers[t.Endpoint] == nil {
		h.takers[t.Endpoint] = list.New()
	}
	w := &waiter{take: t, woken: make(chan struct{}, 1), assigned: make(chan []Taken, 1)}
	w.element = h.takers[t.Endpoint].PushBack(w)
	return w
}

// isWaiting reports whether a taker is still in the line, with the same request.
func (h *hub) isWaiting(w *waiter, t Take) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.element != nil && w.take == t
}

// setReady lets submissions take a job for a taker that found the queue empty.
func (h *hub) setReady(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.ready = true
}

// claim removes the longest waiting taker from the line for a submission, which must send
// to assigned. It returns nil if no taker is ready.
func (h *hub) claim(endpoint string) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := h.takers[endpoint]
	if line == nil {
		return nil
	}
	w := line.Front().Value.(*waiter)
	if !w.ready {
		return nil
	}
	h.remove(w)
	w.claimed = true
	return w
}

// leave removes a taker from the line. If the taker has been woken without noticing it,
// leave wakes the next one. If a submission has claimed the taker, the caller must receive
// from assigned.
func (h *hub) leave(w *waiter) (claimed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.element != nil {
		h.remove(w)
		return false
	}
	select {
	case <-w.woken:
		h.wakeTaker(w.take.Endpoint)
	default:
	}
	return w.claimed
}

// wake wakes the longest waiting taker.
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
	w := line.Front().Value.(*waiter)
	h.remove(w)
	notify.Signal(w.woken)
}

func (h *hub) remove(w *waiter) {
	line := h.takers[w.take.Endpoint]
	line.Remove(w.element)
	w.element = nil
	if line.Len() == 0 {
		delete(h.takers, w.take.Endpoint)
	}
}
