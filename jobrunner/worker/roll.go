package worker

// rollOut replaces workers of older versions. It drains idle workers at once, and busy workers one
// at a time: once a new worker is ready or, if the pool is at its maximum, before the new worker
// starts. surge is the number of workers to start in addition to those that the load needs.
func (p *pool) rollOut() (surge int) {
	var busy *worker // oldest stale worker with a job
	var starting, ready, leaving bool
	for w := range p.workers {
		switch v := w.view(); {
		case !v.takesJobs:
			leaving = leaving || v.stale
		case !v.stale:
			ready = ready || v.State == Idle
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
	case ready || len(p.workers) >= p.settings().Max:
		busy.drain()
		return 0
	}
	return 1
}
