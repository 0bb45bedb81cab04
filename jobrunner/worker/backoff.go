package worker

import "time"

// backoff keeps a pool from starting workers all the time that can't work. The
// pool's lock guards it.
type backoff struct {
	failures int       // in a row
	retryAt  time.Time // when workers are started again; zero: now
	failed   []*worker // that are UNHEALTHY until then
	said     string    // the failure that the log has
}

// fail notes that a worker could not work. Those that fail together count once.
func (p *pool) fail(w *worker, failure string) {
	if len(failure) > maxReason {
		failure = failure[:maxReason] + "…"
	}
	w.on(failed)
	w.reason = failure
	p.failed = append(p.failed, w)
	if p.said != failure {
		p.said = failure
		p.logger.Warn("the jobs of an endpoint wait: a worker can't work", "endpoint", p.id, "worker", w.id, "reason", failure)
	}
	if w.stale() || p.backsOff() {
		return
	}
	pause := lastRetry
	if p.failures < 10 {
		pause = min(firstRetry<<p.failures, lastRetry)
	}
	p.failures++
	p.retryAt = p.clock.Now().Add(pause)
}

func (p *pool) backsOff() bool { return !p.retryAt.IsZero() }

// failing tells whether a worker has failed that is not gone yet: the pause
// begins when it is.
func (p *pool) failing() bool {
	for w := range p.workers {
		if w.state == Unhealthy && !w.stale() {
			return true
		}
	}
	return false
}

// forgive ends a pause that is over, and says when to look again.
func (p *pool) forgive(now time.Time) (again time.Duration) {
	if left := p.retryAt.Sub(now); p.backsOff() && left > 0 {
		return left
	}
	p.retryAt = time.Time{}
	for _, w := range p.failed {
		p.bury(w)
	}
	p.failed = nil
	return recheck
}

// works notes that a worker did a job.
func (p *pool) works() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures, p.said = 0, ""
}

// renew gives a new version of the endpoint a fresh start.
func (p *pool) renew() {
	p.failures, p.said, p.retryAt = 0, "", time.Time{}
}
