package worker

// rollOut replaces workers of an older version. Those without a job leave at once.
// The others leave one after the other, each when a fresh one is ready; at the
// maximum one leaves first. None leaves before its jobs are done. rollOut says how
// many fresh workers are needed beside those that the load asks for.
func (p *pool) rollOut() (surge int) {
	var busy *worker // the oldest that is stale and has a job
	var starting, ready, leaving bool
	for w := range p.workers {
		switch v := w.now(); {
		case !v.staying:
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
