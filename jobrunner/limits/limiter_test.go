package limits

import (
	"cmp"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// contract repeats the service description's table of limits and the field notes' requests per worker.
var contract = map[Operation]struct{ rate, perWorker, concurrent int }{
	RunSync: {2000, 400, 400}, Run: {1000, 200, 200}, Status: {2000, 400, 400}, Stream: {2000, 400, 400},
	Cancel: {100, 20, 20}, PurgeQueue: {2, 0, 0}, OpenAI: {2000, 400, 400}, Requests: {10, 0, 2},
}

func withLimiter(t *testing.T, test func(t *testing.T, l *Limiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, New(new(clock.Clock))) })
}

func runningWorkers(n int) func() int { return func() int { return n } }

// exhaust sends requests until one is rejected. It returns the accepted ones and the RetryAfter.
func exhaust(l *Limiter, k Key, running int) (accepted int, wait time.Duration) {
	for {
		done, err := l.Admit(k, runningWorkers(running))
		var exceeded *Exceeded
		if errors.As(err, &exceeded) {
			return accepted, exceeded.RetryAfter
		}
		done()
		accepted++
	}
}

// No window of ten seconds exceeds the limit, wherever it begins.
func TestWindowSlides(t *testing.T) {
	withLimiter(t, func(t *testing.T, l *Limiter) {
		k := Key{"user", "endpoint", Requests}
		for range 6 {
			must.Do(l.Admit(k, runningWorkers(0)))(t)()
		}
		time.Sleep(4 * time.Second)
		n, wait := exhaust(l, k, 0)
		must.Hold(t, n == 4 && wait == 6*time.Second, "4 s after six requests,", n, "are accepted, then a wait of", wait)
		time.Sleep(6 * time.Second)
		n, wait = exhaust(l, k, 0)
		must.Hold(t, n == 6 && wait == 4*time.Second, "10 s after the first six,", n, "are accepted, then a wait of", wait)
		time.Sleep(4 * time.Second)
		n, wait = exhaust(l, k, 0)
		must.Hold(t, n == 4 && wait == 6*time.Second, "10 s after the next four,", n, "are accepted, then a wait of", wait)
	})
}

func TestRunningWorkers(t *testing.T) {
	for op, want := range contract {
		for _, running := range []int{1, 4, 5, 6, 20} {
			withLimiter(t, func(t *testing.T, l *Limiter) {
				n, _ := exhaust(l, Key{"user", "endpoint", op}, running)
				must.Hold(t, n == max(want.rate, running*want.perWorker), Table[op].Name, "accepted", n, "requests with", running, "workers, want", want)
			})
		}
	}
}

// The limit falls when workers stop.
func TestFewerWorkers(t *testing.T) {
	withLimiter(t, func(t *testing.T, l *Limiter) {
		k := Key{"user", "endpoint", Cancel}
		exhaust(l, k, 10) // 200 requests
		time.Sleep(3 * time.Second)
		n, wait := exhaust(l, k, 0)
		must.Hold(t, n == 0 && wait == 7*time.Second, n, "requests are accepted within the window, then a wait of", wait)
		time.Sleep(7 * time.Second)
		n, _ = exhaust(l, k, 0)
		must.Hold(t, n == 100, n, "requests are accepted when the window is over")
	})
}

func TestConcurrentRequests(t *testing.T) {
	for op, want := range contract {
		withLimiter(t, func(t *testing.T, l *Limiter) {
			k := Key{"user", "endpoint", op}
			var open []func()
			for {
				done, err := l.Admit(k, runningWorkers(100))
				if err != nil {
					must.Contain(t, err.Error(), "too many /")
					break
				}
				open = append(open, done)
			}
			limit := cmp.Or(want.concurrent, want.rate)
			must.Require(t, len(open) == limit, Table[op].Name, "allows", len(open), "requests at a time, want", limit)
			for _, other := range []Key{{"other", "endpoint", op}, {"user", "other", op}, {"user", "endpoint", op%Requests + 1}} {
				must.Do(l.Admit(other, runningWorkers(0)))(t)()
			}
			time.Sleep(Window) // a request in flight outlasts the window
			_, err := l.Admit(k, runningWorkers(0))
			must.Hold(t, (err != nil) == (want.concurrent > 0), Table[op].Name, "returned after the window", err)
			open[0]()
			must.Equal(t, must.Err(l.Admit(k, runningWorkers(0))), nil, Table[op].Name, "after a request has ended")
		})
	}
}

// Empty buckets are dropped; requests in flight are kept.
func TestSweep(t *testing.T) {
	withLimiter(t, func(t *testing.T, l *Limiter) {
		inFlight := Key{"user", "in-flight", RunSync}
		done := must.Do(l.Admit(inFlight, runningWorkers(0)))(t)
		for range 1000 {
			exhaust(l, Key{"user", time.Now().String(), Requests}, 0)
			time.Sleep(Window / 10)
			must.Require(t, len(l.buckets) <= 25, "the limiter has", len(l.buckets), "buckets, want at most 25")
		}
		b := l.buckets[inFlight]
		must.Hold(t, b != nil && b.inFlight == 1, "the bucket of the request in flight is", b)
		done()
		time.Sleep(Window)
		exhaust(l, Key{"user", "last", Requests}, 0)
		must.Equal(t, len(l.buckets), 1, "the number of buckets at the end")
	})
}
