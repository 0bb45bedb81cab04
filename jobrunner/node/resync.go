package node

import (
	"sync"
	"time"
)

// resyncPause is in real time, which is the database's.
const resyncPause = time.Second

// resyncs are reads of changed objects that are still to be made: at once, or again because
// the database was unavailable.
type resyncs struct {
	mu     sync.Mutex
	timers map[string]*time.Timer // by endpoint
	closed bool
	active sync.WaitGroup
}

// later calls resync after a pause, once however often an endpoint is named meanwhile.
func (r *resyncs) later(endpoint string, resync func()) { r.after(resyncPause, endpoint, resync) }

// soon calls resync at once, and doesn't wait for it.
func (r *resyncs) soon(endpoint string, resync func()) { r.after(0, endpoint, resync) }

func (r *resyncs) after(pause time.Duration, endpoint string, resync func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.timers[endpoint] != nil {
		return
	}
	if r.timers == nil {
		r.timers = map[string]*time.Timer{}
	}
	r.active.Add(1)
	r.timers[endpoint] = time.AfterFunc(pause, func() {
		defer r.active.Done()
		r.mu.Lock()
		delete(r.timers, endpoint)
		r.mu.Unlock()
		resync()
	})
}

// close cancels the pending resyncs, and waits for the running ones.
func (r *resyncs) close() {
	r.mu.Lock()
	r.closed = true
	for _, timer := range r.timers {
		if timer.Stop() {
			r.active.Done()
		}
	}
	r.mu.Unlock()
	r.active.Wait()
}
