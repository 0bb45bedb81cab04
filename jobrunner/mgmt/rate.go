package mgmt

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
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

// limiterOf is the limiter of an owner of keys. There are as many as owners.
func (s *server) limiterOf(owner string) *limiter {
	if l, ok := s.limiters.Load(owner); ok {
		return l.(*limiter)
	}
	l, _ := s.limiters.LoadOrStore(owner, newLimiter(s.Clock))
	return l.(*limiter)
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

// count takes one request into the windows and tells their state in h. With
// enforce it refuses a request that a window has no room for; that one is not
// counted.
func (l *limiter) count(h http.Header, enforce bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	full, wait := "", int64(0)
	for i, w := range windows {
		if now.Sub(l.start[i]) >= w.length {
			l.start[i], l.used[i] = now, 0
		}
		if l.used[i] >= w.quota {
			full, wait = w.name, max(wait, l.left(i, now))
		}
	}
	refuse := full != "" && enforce
	var policy, state []string
	for i, w := range windows {
		if !refuse && l.used[i] < w.quota {
			l.used[i]++
		}
		policy = append(policy, fmt.Sprintf("%q;q=%d;w=%d", w.name, w.quota, int64(w.length.Seconds())))
		state = append(state, fmt.Sprintf("%q;r=%d;t=%d", w.name, w.quota-l.used[i], l.left(i, now)))
	}
	h.Set("RateLimit-Policy", strings.Join(policy, ", "))
	h.Set("RateLimit", strings.Join(state, ", "))
	if refuse {
		h.Set("Retry-After", strconv.FormatInt(wait, 10))
		return failf(http.StatusTooManyRequests, "rate limit exceeded for the %s window: try again in %d s", full, wait)
	}
	return nil
}

// left is the number of seconds until a window ends, rounded up.
func (l *limiter) left(i int, now time.Time) int64 {
	d := l.start[i].Add(windows[i].length).Sub(now)
	return int64((d + time.Second - 1) / time.Second)
}
