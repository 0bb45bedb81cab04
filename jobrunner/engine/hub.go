package engine

import (
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

// hub wakes goroutines that wait for a change of a job. A wake-up is only a hint, after which the goroutine must
// read the job, unless Watch.End returns it. A goroutine must start to watch before its first read.
type hub struct {
	mu      sync.Mutex
	watches map[jobKey]map[*Watch]bool
}

type jobKey struct{ endpoint, id string }

// Watch is a subscription to the changes of one job.
type Watch struct {
	// C receives a value after a change. It buffers one value, however many changes there were.
	C       <-chan struct{}
	c       chan struct{}
	endOnly bool                // ignores submissions and starts
	job     atomic.Pointer[Job] // the ended job
	hub     *hub
	key     jobKey
}

// Watch subscribes to a job, which need not exist. The caller must call Stop.
func (e *Engine) Watch(endpoint, id string) *Watch { return e.watch(endpoint, id, false) }

func (e *Engine) watch(endpoint, id string, endOnly bool) *Watch {
	h, c := &e.hub, make(chan struct{}, 1)
	w := &Watch{C: c, c: c, endOnly: endOnly, hub: h, key: jobKey{endpoint, id}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches[w.key] == nil {
		h.watches[w.key] = map[*Watch]bool{}
	}
	h.watches[w.key][w] = true
	return w
}

// End returns the ended job if a worker's result has ended it since the watch began. After a wake-up without
// such a result, the caller reads the job: it may have been cancelled, for example.
func (w *Watch) End() *Job { return w.job.Load() }

// Stop ends the watch, unless it is nil.
func (w *Watch) Stop() {
	if w == nil {
		return
	}
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	delete(w.hub.watches[w.key], w)
	if len(w.hub.watches[w.key]) == 0 {
		delete(w.hub.watches, w.key)
	}
}

func (h *hub) wake(t transition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watches[jobKey{t.Endpoint, t.Job}] {
		switch {
		case t.ended != nil:
			w.job.CompareAndSwap(nil, t.ended) // the first result that ended the job stays, whatever arrives later
		case w.endOnly && (t.To == InProgress || t.From == absent && t.To == InQueue):
			continue
		}
		notify.Signal(w.c)
	}
}
