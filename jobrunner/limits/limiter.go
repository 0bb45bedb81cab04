// Package limits enforces the job API's request rates, concurrent requests and length of a queue.
package limits

import (
	"fmt"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// Key identifies requests that share a limit: the requests of one user for one operation at one endpoint.
type Key struct {
	User, Endpoint string
	Operation      Operation
}

// Exceeded is the error for a request above a limit.
type Exceeded struct {
	Text       string
	RetryAfter time.Duration
}

func (e *Exceeded) Error() string { return e.Text }

// Limiter counts requests in a sliding window: it stores the time of each request accepted within the last Window.
type Limiter struct {
	clock *clock.Clock
	start time.Time // accepted and lastSweep are offsets from it

	mu        sync.Mutex
	buckets   map[Key]*bucket
	lastSweep time.Duration
}

type bucket struct {
	inFlight int
	accepted []time.Duration // times within the last Window, oldest first
}

func New(c *clock.Clock) *Limiter {
	return &Limiter{clock: c, start: c.Now(), buckets: map[Key]*bucket{}}
}

// Admit accepts a request, which is in flight until done is called, or returns an *Exceeded.
// A rejected request doesn't count. The rate is the higher of the base rate and the rate of
// the running workers. Admit calls countWorkers only if the base rate is used up.
func (l *Limiter) Admit(k Key, countWorkers func() int) (done func(), err error) {
	if k.Operation == Unlimited {
		return func() {}, nil
	}
	limit := Table[k.Operation]
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now().Sub(l.start)
	l.sweep(now)
	b := l.buckets[k]
	if b == nil {
		b = new(bucket)
		l.buckets[k] = b
	}
	b.expire(now)
	if limit.Concurrent > 0 && b.inFlight >= limit.Concurrent {
		return nil, &Exceeded{fmt.Sprintf("too many %s requests at a time at this endpoint: %d are open", limit.Name, b.inFlight), time.Second}
	}
	if rate := limit.Rate; len(b.accepted) >= rate {
		if limit.PerWorker > 0 {
			rate = max(rate, countWorkers()*limit.PerWorker)
		}
		if len(b.accepted) >= rate {
			return nil, &Exceeded{
				fmt.Sprintf("too many %s requests at this endpoint: %d in %s are allowed now", limit.Name, rate, Window),
				b.accepted[len(b.accepted)-rate] + Window - now,
			}
		}
	}
	b.inFlight++
	b.accepted = append(b.accepted, now)
	return func() { l.release(b) }, nil
}

func (l *Limiter) release(b *bucket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.inFlight--
}

// expire drops requests older than a Window.
func (b *bucket) expire(now time.Duration) {
	n := 0
	for n < len(b.accepted) && now-b.accepted[n] >= Window {
		n++
	}
	if b.accepted = b.accepted[n:]; len(b.accepted) == 0 {
		b.accepted = nil
	}
}

// sweep drops empty buckets, once in a Window.
func (l *Limiter) sweep(now time.Duration) {
	if now-l.lastSweep < Window {
		return
	}
	l.lastSweep = now
	for k, b := range l.buckets {
		if b.expire(now); b.inFlight == 0 && b.accepted == nil {
			delete(l.buckets, k)
		}
	}
}
