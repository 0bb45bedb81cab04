// Package limits counts the requests of the job API and says when there are too
// many: how often, how many at a time, and how long a queue.
package limits

import (
	"fmt"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// Key is what is limited together: one user's requests of one operation at one
// endpoint.
type Key struct {
	User, Endpoint string
	Operation      Operation
}

// Exceeded is the error of a request that is one too many.
type Exceeded struct {
	Text  string
	After time.Duration // until the next try has a chance
}

func (e *Exceeded) Error() string { return e.Text }

// Limiter counts requests. It holds a number for each request of the last
// Window, and nothing of those before.
type Limiter struct {
	clock *clock.Clock
	start time.Time // all other times count from it

	mu      sync.Mutex
	buckets map[Key]*bucket
	swept   time.Duration
}

// bucket is what is known of a Key's requests.
type bucket struct {
	open     int
	accepted []time.Duration // times within the last Window, oldest first
}

// New has seen no requests.
func New(c *clock.Clock) *Limiter {
	return &Limiter{clock: c, start: c.Now(), buckets: map[Key]*bucket{}}
}

// Admit accepts a request, which lasts until done is called, or answers an
// *Exceeded; a request that is refused does not count. The rate is the higher
// of the base and of what the running workers allow; running is only asked
// where the base is used up.
func (l *Limiter) Admit(k Key, running func() int) (done func(), err error) {
	if k.Operation == None {
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
	b.forget(now)
	if limit.Concurrent > 0 && b.open >= limit.Concurrent {
		return nil, &Exceeded{fmt.Sprintf("too many %s requests at a time at this endpoint: %d are open", limit.Name, b.open), time.Second}
	}
	if rate := limit.Rate; len(b.accepted) >= rate {
		if limit.PerWorker > 0 {
			rate = max(rate, running()*limit.PerWorker)
		}
		if len(b.accepted) >= rate {
			return nil, &Exceeded{
				fmt.Sprintf("too many %s requests at this endpoint: %d in %s are allowed now", limit.Name, rate, Window),
				b.accepted[len(b.accepted)-rate] + Window - now,
			}
		}
	}
	b.open++
	b.accepted = append(b.accepted, now)
	return func() { l.done(b) }, nil
}

func (l *Limiter) done(b *bucket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.open--
}

// forget drops what a Window has passed since.
func (b *bucket) forget(now time.Duration) {
	n := 0
	for n < len(b.accepted) && now-b.accepted[n] >= Window {
		n++
	}
	if b.accepted = b.accepted[n:]; len(b.accepted) == 0 {
		b.accepted = nil
	}
}

// sweep drops the buckets that say nothing any more, once in a Window.
func (l *Limiter) sweep(now time.Duration) {
	if now-l.swept < Window {
		return
	}
	l.swept = now
	for k, b := range l.buckets {
		if b.forget(now); b.open == 0 && b.accepted == nil {
			delete(l.buckets, k)
		}
	}
}
