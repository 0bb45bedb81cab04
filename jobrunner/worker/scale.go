package worker

import (
	"math"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// recheckInterval is the interval of evaluations when nothing happens, as a safety net.
const recheckInterval = 24 * time.Hour

// desiredCount returns how many workers there should be, and after what time that may change without an event. staying
// is the number of workers that stay; spare of them will take a waiting job. It never removes
// idle workers: they end by their time-out.
func (e Endpoint) desiredCount(load engine.Load, staying, spare int, now, lastStart time.Time) (count int, recheckIn time.Duration) {
	count, recheckIn = staying, recheckInterval
	switch {
	case e.ByRequests:
		count = max(count, int(math.Ceil(float64(load.Waiting+load.Running)/e.ScalerValue)))
	case load.Waiting > spare && staying == 0:
		count = 1 // the first job doesn't wait for the delay
	case load.Waiting > spare:
		delay := time.Duration(min(e.ScalerValue, 1e9) * float64(time.Second)) // a Duration has 9.2e9 s
		due := load.Oldest.Add(delay)
		if earliest := lastStart.Add(delay); earliest.After(due) {
			due = earliest
		}
		if now.Before(due) {
			recheckIn = due.Sub(now)
		} else {
			count, recheckIn = staying+1, delay
		}
	}
	return min(max(count, e.Min), e.Max), recheckIn
}

// rollOut replaces workers of older versions. It drains idle workers at once, and busy workers one
// at a time: once a new worker is idle or, if the pool is at its maximum, before the new worker
// starts. surge is the number of workers to start in addition to those that the load needs.
func (p *pool) rollOut() (surge int) {
	var busy *worker // oldest stale worker with a job
	var starting, idle, leaving bool
	for w := range p.workers {
		switch v := w.view(); {
		case !v.takesJobs:
			leaving = leaving || v.stale
		case !v.stale:
			idle = idle || v.State == Idle
			starting = starting || v.State == Initializing || v.State == Throttled
		case v.jobs == 0:
			w.drain()
		case busy == nil || w.number < busy.number:
			busy = w
		}
	}
	switch {
	case busy == nil, leaving, starting:
		return 0
	case idle || len(p.workers) >= p.settings().Max:
		busy.drain()
		return 0
	}
	return 1
}
