package worker

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// backoff keeps a pool from starting workers all the time that can't work. The
// pool's lock guards it.
type backoff struct {
	failures int       // in a row
	retryAt  time.Time // when workers are started again; zero: now
	failed   []*worker // that are UNHEALTHY until then
	latest   string    // failure, until a worker is ready
	said     []string  // the failures that the log has, as signatures
}

// fail notes that a worker could not work. Those that fail together count once.
func (p *pool) fail(w *worker, failure string) {
	failure = logline.Shorten(failure, maxReason)
	w.on(failed)
	w.reason = failure
	p.failed = append(p.failed, w)
	if same := signature(failure); !slices.Contains(p.said, same) {
		p.said = append(p.said, same)
		p.said = p.said[max(0, len(p.said)-saidMost):]
		p.logger.Warn("the jobs of an endpoint wait: a worker can't work", "endpoint", p.id, "worker", w.id, "reason", failure)
	}
	if w.stale() {
		return
	}
	p.latest = failure
	if p.backsOff() {
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

// signature is the same for failures that differ in an address, a time, an id or
// a count alone. An exit status is none of these.
func signature(failure string) string {
	return varying.ReplaceAllStringFunc(failure, func(word string) string {
		if strings.HasPrefix(word, "exit status ") {
			return word
		}
		return "#"
	})
}

// varying are words with a digit in them.
var varying = regexp.MustCompile(`exit status \d+|[\w.:+-]*\d[\w.:+-]*`)

// saidMost bounds the failures that are remembered as said.
const saidMost = 20

// waitsFor is why no worker of the endpoint can work, and its jobs wait; "" while
// one does. One that starts anew after a failure changes nothing before it is
// ready. The pool is locked.
func (p *pool) waitsFor() (reason string) {
	for w := range p.each() {
		if w.state == Idle || w.state == Running {
			return ""
		}
	}
	return p.latest
}

// works notes that a worker did a job.
func (p *pool) works() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures, p.said, p.latest = 0, nil, ""
}

// renew gives a new version of the endpoint a fresh start.
func (p *pool) renew() {
	p.failures, p.said, p.latest, p.retryAt = 0, nil, "", time.Time{}
}
