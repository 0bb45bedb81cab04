// Package clock provides the jobrunner's time. Code reads the time and waits by one Clock, which tests
// and users can advance. Only code that needs real time uses RealSleep.
package clock

import (
	"context"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// Clock is a clock that can be advanced. Its time is the time of day at its first use, plus
// the monotonic time since then, the offset of Advance, and the correction of Correct. It
// ignores jumps of the machine's clock (jump.go). The zero Clock is ready to use. Inside a
// testing/synctest bubble it uses the bubble's time.
type Clock struct {
	wall  func() time.Time // nil: time.Now
	start atomic.Pointer[reading]
	ahead atomic.Int64 // nanoseconds by which jumps have moved the time of day ahead

	offset     atomic.Int64  // nanoseconds
	corrected  atomic.Bool   // Correct was called
	correction atomic.Int64  // nanoseconds by which this machine's time is behind the shared database's clock
	stoppedAt  atomic.Int64  // Unix nanoseconds; 0: the clock runs
	events     atomic.Uint64 // counts starts and ends of timers and work
	longCalls  atomic.Uint64 // 1 + number of goroutines in long system calls, such as for signals; 0: unknown

	mu      sync.Mutex
	pending map[*Timer]bool
	works   map[*work]bool // in progress
}

type work struct{ startedAt time.Time } // in real time

func (c *Clock) Now() time.Time {
	now := c.MachineTime()
	if at := c.stoppedAt.Load(); at != 0 {
		now = time.Unix(0, at)
	}
	return now.Add(time.Duration(c.offset.Load() + c.correction.Load()))
}

// Stop stops the clock for good. Only Advance moves it then, so that tests don't depend on real time.
func (c *Clock) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stoppedAt.CompareAndSwap(0, c.MachineTime().UnixNano())
	for t := range c.pending {
		t.realTimer.Stop()
	}
}

// Timer sends the time on C once, after its duration.
type Timer struct {
	C <-chan time.Time

	c         chan time.Time
	clock     *Clock
	due       time.Time
	realTimer *time.Timer
}

func (c *Clock) NewTimer(d time.Duration) *Timer {
	fired := make(chan time.Time, 1)
	t := &Timer{C: fired, c: fired, clock: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = map[*Timer]bool{}
	}
	c.pending[t] = true
	c.events.Add(1)
	t.due = c.Now().Add(d)
	t.realTimer = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		// The clock may have been stopped meanwhile.
		if c.stoppedAt.Load() == 0 {
			t.fire()
		}
	})
	if c.stoppedAt.Load() != 0 {
		t.realTimer.Stop()
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
	t.clock.events.Add(1)
	t.realTimer.Stop()
}

func (t *Timer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.end()
}

// Sleep waits for the duration. If ctx ends first, Sleep returns its error.
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

// RealSleep is Sleep in real time, for waits on processes and databases, which don't follow a Clock.
func RealSleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BeginWork makes Advance wait until end is called, at most for workTimeout.
func (c *Clock) BeginWork() (end func()) {
	w := &work{time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.works == nil {
		c.works = map[*work]bool{}
	}
	c.works[w] = true
	c.events.Add(1)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.works, w)
		c.events.Add(1)
	}
}

// working reports whether any work is in progress that is younger than workTimeout.
func (c *Clock) working() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.works {
		if time.Since(w.startedAt) < workTimeout {
			return true
		}
	}
	return false
}

// Advance moves the time forward. It fires due timers one by one, each at its own time.
// Before the first timer and after each timer, it waits until the goroutines have settled,
// because they may start further timers that fall due during the advance.
func (c *Clock) Advance(d time.Duration) {
	c.settle()
	for target := c.Now().Add(d); c.step(target); {
		c.settle()
	}
}

// step moves the time to the next timer that is due by target, and fires it. If no timer is due,
// it moves the time to target and returns false.
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
	if c.stoppedAt.Load() == 0 {
		for t := range c.pending {
			t.realTimer.Reset(t.due.Sub(c.Now()))
		}
	}
	return false
}

func (c *Clock) moveTo(t time.Time) {
	if d := t.Sub(c.Now()); d > 0 {
		c.offset.Add(int64(d))
	}
}

const (
	pause         = 500 * time.Microsecond // between two checks
	settleTimeout = 100 * time.Millisecond // for goroutines that never wait
	workTimeout   = time.Second            // for work, such as a call to another process
)

// settle waits until no work is in progress and all goroutines wait. It gives up after
// settleTimeout if some goroutine always runs, and ignores goroutines that stay in system calls
// for that long. It waits at most workTimeout for work.
func (c *Clock) settle() {
	start := time.Now()
	quiet, enough := 0, quietChecks // consecutive checks without activity
	first := c.longCalls.Load() == 0
	if first {
		enough = firstChecks
	}
	for lastWork := start; time.Since(start) < workTimeout; {
		if c.working() {
			time.Sleep(pause)
			lastWork, quiet = time.Now(), 0
			continue
		}
		before, maxCalls := c.activity(), c.longCalls.Load()-1 // at first 0-1, which wraps around: any number of calls is allowed
		pollNetwork()
		resting, calls := atRest(maxCalls)
		timedOut := time.Since(lastWork) > settleTimeout
		if resting && calls < maxCalls || timedOut {
			c.longCalls.Store(calls + 1)
		}
		quiet++
		if !resting || c.working() || c.activity() != before {
			quiet = 0
		}
		if timedOut || quiet == enough {
			return
		}
		if !resting || first {
			time.Sleep(pause)
		}
	}
}

// quietChecks is more than one, because a goroutine may send a request between pollNetwork and atRest.
const quietChecks = 2

// firstChecks is the number of checks of the first settle, which learns how many goroutines
// are in system calls permanently. It must not count a goroutine in a short system call.
const firstChecks = 8

// activity returns a number that changes when a timer or work starts or ends, or a goroutine starts.
func (c *Clock) activity() uint64 {
	created := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(created)
	return c.events.Load() + created[0].Value.Uint64()
}
