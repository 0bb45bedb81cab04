package worker

// roll replaces workers of an older version. Those without a job leave at once.
// The others leave one after the other, each when a fresh one is ready; at the
// maximum one leaves first. None leaves before its jobs are done. roll says how
// many fresh workers are needed beside those that the load asks for.
func (p *pool) roll() (surge int) {
	var busy *worker // the oldest that is stale and has a job
	var starting, ready, leaving bool
	for w := range p.workers {
		switch {
		case !w.stays():
			leaving = leaving || w.stale()
		case !w.stale():
			ready = ready || w.state == Idle
			starting = starting || w.state == Initializing || w.state == Throttled
		case len(w.hands) == 0:
			w.takeNone()
		case busy == nil || w.number < busy.number:
			busy = w
		}
	}
	switch {
	case busy == nil, leaving, starting:
		return 0
	case ready || len(p.workers) >= p.settings.Max:
		busy.takeNone()
		return 0
	}
	return 1
}
