package node

import (
	"sync"
	"time"
)

// resyncPause is real time, because a database's outage doesn't follow the jobrunner's clock.
const resyncPause = time.Second

// resyncs schedules reads of changed objects: at once, or after a pause if the database is
// unavailable.
type resyncs struct {
	mu     sync.Mutex
	timers map[string]*time.Timer // by endpoint
	closed bool
	active sync.WaitGroup
}

// retry calls resync after resyncPause. Further calls for the same endpoint are ignored until
// then.
func (r *resyncs) retry(endpoint string, resync func()) { r.schedule(resyncPause, endpoint, resync) }

// start calls resync in a new goroutine.
func (r *resyncs) start(endpoint string, resync func()) { r.schedule(0, endpoint, resync) }

func (r *resyncs) schedule(pause time.Duration, endpoint string, resync func()) {
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
