package mgmt

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// windows are the quotas of management API v2 (its document, RateLimit-Policy).
var windows = []struct {
	name   string
	quota  int
	length time.Duration
}{
	{"minute", 60, time.Minute},
	{"hour", 3000, time.Hour},
	{"day", 50000, 24 * time.Hour},
}

// limit counts a request of an owner of keys where limits are enforced, and
// tells the state of the quotas in h. Elsewhere it shows whole quotas: a client
// that heeds them must not wait for what nobody enforces.
func (s *server) limit(owner string, h http.Header) error {
	if !s.Limits {
		l := newLimiter(s.Clock)
		l.show(h, l.resetElapsed())
		return nil
	}
	l, _ := s.limiters.LoadOrStore(owner, newLimiter(s.Clock)) // there are as many as owners
	return l.(*limiter).count(h)
}

// limiter counts the requests of one user in fixed windows, each of which
// begins with its first request.
type limiter struct {
	clock *clock.Clock

	mu    sync.Mutex
	start []time.Time
	used  []int
}

func newLimiter(c *clock.Clock) *limiter {
	return &limiter{clock: c, start: make([]time.Time, len(windows)), used: make([]int, len(windows))}
}

// count takes one request into the windows and tells their state in h. It
// refuses a request that a window has no room for; that one is not counted.
func (l *limiter) count(h http.Header) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.resetElapsed()
	full, wait := "", int64(0)
	for i, w := range windows {
		if l.used[i] >= w.quota {
			full, wait = w.name, max(wait, l.secondsLeft(i, now))
		}
	}
	if full == "" {
		for i := range windows {
			l.used[i]++
		}
	}
	l.show(h, now)
	if full != "" {
		h.Set("Retry-After", strconv.FormatInt(wait, 10))
		return httpanswer.Refuse(http.StatusTooManyRequests, "rate limit exceeded for the %s window: try again in %d s", full, wait)
	}
	return nil
}

// resetElapsed begins the windows again that are over.
func (l *limiter) resetElapsed() (now time.Time) {
	now = l.clock.Now()
	for i, w := range windows {
		if now.Sub(l.start[i]) >= w.length {
			l.start[i], l.used[i] = now, 0
		}
	}
	return now
}

// show writes the quotas and what is left of them.
func (l *limiter) show(h http.Header, now time.Time) {
	var policy, state []string
	for i, w := range windows {
		policy = append(policy, fmt.Sprintf("%q;q=%d;w=%d", w.name, w.quota, int64(w.length.Seconds())))
		state = append(state, fmt.Sprintf("%q;r=%d;t=%d", w.name, w.quota-l.used[i], l.secondsLeft(i, now)))
	}
	h.Set("RateLimit-Policy", strings.Join(policy, ", "))
	h.Set("RateLimit", strings.Join(state, ", "))
}

// secondsLeft is the number of seconds until a window ends, rounded up.
func (l *limiter) secondsLeft(i int, now time.Time) int64 {
	d := l.start[i].Add(windows[i].length).Sub(now)
	return int64((d + time.Second - 1) / time.Second)
}
