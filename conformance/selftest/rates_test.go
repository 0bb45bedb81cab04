package selftest_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// limiter reports whether a request is accepted at a time. It counts each key separately.
type limiter func(key string, now time.Time) bool

// fixedWindow accepts n requests in each of consecutive windows.
func fixedWindow(n int, length time.Duration) limiter {
	type window struct{ number, accepted int64 }
	windows := map[string]window{}
	return func(key string, now time.Time) bool {
		w := windows[key]
		if number := now.UnixNano() / int64(length); w.number != number {
			w = window{number: number}
		}
		ok := w.accepted < int64(n)
		if ok {
			w.accepted++
		}
		windows[key] = w
		return ok
	}
}

// bucket is a token bucket of size n, refilled evenly within the length.
func bucket(n int, length time.Duration) limiter {
	type level struct {
		tokens float64
		at     time.Time
	}
	levels := map[string]level{}
	return func(key string, now time.Time) bool {
		l, seen := levels[key]
		if !seen {
			l = level{float64(n), now}
		}
		l.tokens = min(float64(n), l.tokens+float64(n)*float64(now.Sub(l.at))/float64(length))
		l.at = now
		ok := l.tokens >= 1
		if ok {
			l.tokens--
		}
		levels[key] = l
		return ok
	}
}

// A deployment conforms with any algorithm that has the contract's limits, and fails with others.
func TestRateLimitAlgorithms(t *testing.T) {
	acctest.LeaveToCI(t, "the tests of jobrunner/limits test its own algorithm")
	// The jobrunner itself has a sliding window.
	algorithms := map[string]func(int, time.Duration) limiter{"fixed window": fixedWindow, "bucket": bucket}
	for name, algorithm := range algorithms {
		if testing.Short() && name != "bucket" {
			continue
		}
		for _, c := range []struct {
			limits string
			extra  int // requests above the limits of the contract
			window time.Duration
			fails  bool
		}{
			{"the limits of the contract", 0, 10 * time.Second, false}, {"one more", 1, 10 * time.Second, true}, {"one less", -1, 10 * time.Second, true},
			{"a window of 9.5 s", 0, 9500 * time.Millisecond, true}, {"a window of 11 s", 0, 11 * time.Second, true},
		} {
			if name == "fixed window" && c.window > 10*time.Second {
				continue // the outcome depends on where the window begins
			}
			if testing.Short() && (c.extra < 0 || c.window > 10*time.Second) {
				continue // one fault of each kind is enough
			}
			t.Run(name+", "+c.limits, func(t *testing.T) {
				limiters := map[string]limiter{}
				for operation, n := range map[string]int{"/purge-queue": 2, "/requests": 10, "/cancel/": 100} {
					limiters[operation] = algorithm(n+c.extra, c.window)
				}
				var mu sync.Mutex
				var now func() time.Time
				target := startDeployment(t, func(h http.Handler) http.Handler {
					now = func() time.Time {
						now, err := askClock(t.Context(), h, http.MethodGet, "the-key-of-the-suite", "")
						must.Equal(t, err, nil)
						return now
					}
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						for operation, accepts := range limiters {
							if !strings.Contains(r.URL.Path, operation) {
								continue
							}
							mu.Lock()
							ok := accepts(r.Header.Get("Authorization")+strings.Split(r.URL.Path, "/")[2], now())
							mu.Unlock()
							if !ok {
								w.WriteHeader(http.StatusTooManyRequests)
								return
							}
						}
						h.ServeHTTP(w, r)
					})
				}, func(c *jobrunner.Config) { c.NoJobLimits = true })
				options := conformance.Options{Target: target, Select: []string{"RAT-05", "RAT-06", "RAT-08", "RAT-09", "RAT-10"}}
				r := judge(t, options)
				for tries := 1; r.Counts[report.Inconclusive] > 0 && r.Counts[report.Fail] == 0 && tries < 4; tries++ {
					r = judge(t, options) // a busy machine may send the requests too slowly
				}
				if failed := r.Counts[report.Fail] > 0; failed != c.fails {
					t.Errorf("a clause must fail: %t, the verdicts are %v", c.fails, r.Counts)
					for _, x := range r.Results {
						t.Log(report.Text(x))
					}
				}
			})
		}
	}
}
