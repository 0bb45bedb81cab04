package worker

// rollOut replaces workers of older versions. Idle ones are drained at once. Busy ones are drained one
// at a time: each when a fresh worker is ready or, at the maximum, before one starts. It returns how
// many workers are needed beside those for the load.
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
