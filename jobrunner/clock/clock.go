// Package clock is the jobrunner's time. Whatever reads the time or waits for
// it does so through one Clock, so that time is a value like any other.
package clock

import (
	"context"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// Clock is the time at which it was first read plus the time that passed since
// by the monotonic clock, an offset, which starts at zero and which Advance alone
// moves, and a correction of this machine's time. A jump of the machine's clock
// does not count (jump.go). The zero Clock is ready for use. Inside a
// testing/synctest bubble, where real time is virtual, so is the Clock's.
type Clock struct {
	wall  func() time.Time // nil: time.Now
	start atomic.Pointer[reading]
	ahead atomic.Int64 // nanoseconds by which jumps have put the time of day ahead of Now

	offset    atomic.Int64 // nanoseconds
	corrected atomic.Bool
	wrong     atomic.Int64  // nanoseconds that this machine's time is behind
	stands    atomic.Int64  // Unix nanoseconds at which it was stopped, 0: it runs
	signs     atomic.Uint64 // counts timers and work, begun and ended
	calls     atomic.Uint64 // goroutines that are in a call of the system for long, as for signals, plus one; 0: not known

	mu      sync.Mutex
	pending map[*Timer]bool
	works   map[*work]bool // that go on
}

type work struct{ begun time.Time } // in real time

// Now is the time.
func (c *Clock) Now() time.Time {
	now := c.passed()
	if at := c.stands.Load(); at != 0 {
		now = time.Unix(0, at)
	}
	return now.Add(time.Duration(c.offset.Load() + c.wrong.Load()))
}

// Stop makes the time stand still, for good: Advance alone moves it from now on,
// so that a test sees the same however long this machine takes.
func (c *Clock) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stands.CompareAndSwap(0, c.passed().UnixNano())
	for t := range c.pending {
		t.real.Stop()
	}
}

// Timer sends the time on C once, when its duration has passed.
type Timer struct {
	C <-chan time.Time

	c     chan time.Time
	clock *Clock
	due   time.Time
	real  *time.Timer
}

// NewTimer starts a timer.
func (c *Clock) NewTimer(d time.Duration) *Timer {
	at := make(chan time.Time, 1)
	t := &Timer{C: at, c: at, clock: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = map[*Timer]bool{}
	}
	c.pending[t] = true
	c.signs.Add(1)
	t.due = c.Now().Add(d)
	t.real = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		// It may have begun to fire when the clock was stopped.
		if c.stands.Load() == 0 {
			t.fire()
		}
	})
	if c.stands.Load() != 0 {
		t.real.Stop()
		if d <= 0 {
			t.fire()
		}
	}
	return t
}

// fire is called with the clock locked.
func (t *Timer) fire() {
	if t.clock.pending[t] {
		t.end()
		t.c <- t.clock.Now()
	}
}

func (t *Timer) end() {
	delete(t.clock.pending, t)
	t.clock.signs.Add(1)
	t.real.Stop()
}

// Stop ends a timer that is not needed any more.
func (t *Timer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.end()
}

// Sleep waits for the duration, or for the end of ctx, whose error it answers.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Work says that something goes on that an advance should wait for before the
// time moves on: what it answers is called at its end.
func (c *Clock) Work() (end func()) {
	w := &work{time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.works == nil {
		c.works = map[*work]bool{}
	}
	c.works[w] = true
	c.signs.Add(1)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.works, w)
		c.signs.Add(1)
	}
}

// working tells whether something goes on that has not taken all patience.
func (c *Clock) working() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.works {
		if time.Since(w.begun) < workPatience {
			return true
		}
	}
	return false
}

// Advance moves the time forward. What goes on is let end first. Timers that
// fall due fire one after the other, each at its own time, and what they wake
// gets a moment to act on it and to begin timers of its own, which may fall due
// as well.
func (c *Clock) Advance(d time.Duration) {
	c.settle()
	for target := c.Now().Add(d); c.step(target); {
		c.settle()
	}
}

// step moves the time to the next timer up to target and fires it, or else to
// target, after which there is no other step.
func (c *Clock) step(target time.Time) (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next *Timer
	for t := range c.pending {
		if !t.due.After(target) && (next == nil || t.due.Before(next.due)) {
			next = t
		}
	}
	if next != nil {
		c.moveTo(next.due)
		next.fire()
		return true
	}
	c.moveTo(target)
	if c.stands.Load() == 0 {
		for t := range c.pending {
			t.real.Reset(t.due.Sub(c.Now()))
		}
	}
	return false
}

func (c *Clock) moveTo(t time.Time) {
	if d := t.Sub(c.Now()); d > 0 {
		c.offset.Add(int64(d))
	}
}

// What a fired timer wakes has acted when nothing works and no goroutine is
// left to run. A process that always has some is not waited for beyond patience,
// what is in calls of the system for so long need not end, and work that does
// not end is waited for once.
const (
	pause        = 500 * time.Microsecond
	patience     = 100 * time.Millisecond
	workPatience = time.Second // a call of another process, on a busy machine
)

func (c *Clock) settle() {
	start := time.Now()
	quiet, enough := 0, quietLooks // looks in a row at which nothing had gone on
	first := c.calls.Load() == 0
	if first {
		enough = firstLooks
	}
	for free := start; time.Since(start) < workPatience; {
		if c.working() {
			time.Sleep(pause)
			free, quiet = time.Now(), 0
			continue
		}
		before, known := c.activity(), c.calls.Load()-1
		pollNetwork()
		rests, calls := atRest(known)
		tired := time.Since(free) > patience
		if rests && calls < known || tired {
			c.calls.Store(calls + 1)
		}
		quiet++
		if !rests || c.working() || c.activity() != before {
			quiet = 0
		}
		if tired || quiet == enough {
			return
		}
		if !rests || first {
			time.Sleep(pause)
		}
	}
}

// quietLooks is more than one: a request may have been passed on between a poll
// of the network and the look after it.
const quietLooks = 2

// firstLooks learn how many goroutines are in calls of the system for good: one
// that is in a short call, and not let run, must not count as one of those.
const firstLooks = 8

// activity changes with each timer and piece of work that begins or ends, and
// with each goroutine that begins, as those of a connection do.
func (c *Clock) activity() uint64 {
	created := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(created)
	return c.signs.Load() + created[0].Value.Uint64()
}
