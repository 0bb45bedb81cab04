package env

import (
	"context"
	"sync"
	"time"
)

// Clock is the target's clock. Cases use no other time. They run concurrently in real time, up to a
// limit, and sleep in the target's time. The clock is advanced only when all cases sleep, to the
// earliest time for which a case waits. So half an hour takes milliseconds, and what a case sees
// doesn't depend on the other cases.
//
// If the target's clock goes by itself, a case continues as soon as its time has come, even if the limit is
// reached: waiting for a turn would make it check too late. The limit applies to new cases.
type Clock struct {
	// advance advances the target's clock by at least d and returns its new time. It may be nil.
	advance func(ctx context.Context, d time.Duration) (time.Time, error)
	limit   int // the maximum number of concurrent cases

	stopped bool // only advance moves the target's clock

	mu         sync.Mutex
	lastTime   time.Time // the last time that the target reported
	readAt     time.Time // the real time of that report
	expected   int       // cases that have not begun
	running    int
	turnQueue  []chan struct{} // of cases that wait for a turn
	sleepers   map[*sleeper]bool
	advancing  bool
	step       time.Duration // the length of the current advance
	advanceErr error         // why the last advance failed
}

type sleeper struct {
	until time.Time
	due   *time.Timer   // fires at until; nil if the clock is stopped
	woken chan struct{} // closed when the sleeper gets its next turn
	err   error
}

// wakeSlack is how late a sleeper may be woken. Sleepers with almost the same time are woken together.
const wakeSlack = 50 * time.Millisecond

// NewClock returns a real-time clock for at most parallel cases at a time. It also suits a target that runs
// in a testing/synctest bubble together with the suite.
func NewClock(parallel int) *Clock {
	return &Clock{limit: max(parallel, 1), lastTime: time.Now(), readAt: time.Now(), sleepers: map[*sleeper]bool{}}
}

// Control sets the clock to the time of a target whose clock can be advanced. From now on, the clock
// advances the target's. If the target refuses, the clock stays a real-time clock.
func (c *Clock) Control(ctx context.Context, t *Target) error {
	now, err := t.Advance(ctx, time.Millisecond)
	if err == nil {
		c.advance, c.stopped, c.lastTime, c.readAt = t.Advance, t.ClockStopped, now, time.Now()
	}
	return err
}

func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

// Latest is Now or, during an advance, the time to which the clock is advanced. Effects during an
// advance happen between Now and Latest. A stopped clock has its new time only after the advance.
func (c *Clock) Latest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || !c.advancing {
		return c.now()
	}
	return c.now().Add(c.step)
}

func (c *Clock) now() time.Time {
	if c.stopped {
		return c.lastTime
	}
	return c.lastTime.Add(time.Since(c.readAt))
}

// Announce announces n calls of Begin. The clock isn't advanced before these.
func (c *Clock) Announce(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected += n
}

// Begin waits for a turn. While a case holds a turn, the clock is advanced only during Until.
func (c *Clock) Begin(ctx context.Context) error {
	turn := make(chan struct{})
	c.mu.Lock()
	c.expected = max(c.expected-1, 0)
	c.turnQueue = append(c.turnQueue, turn)
	c.dispatch()
	c.mu.Unlock()
	<-turn // a short wait, because each holder ends its turn or sleeps
	if ctx.Err() != nil {
		c.End()
	}
	return ctx.Err()
}

// End returns the turn.
func (c *Clock) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.dispatch()
}

// dispatch grants the free turns, but not during an advance. If all cases sleep, it advances the clock.
func (c *Clock) dispatch() {
	if c.advancing {
		return
	}
	for c.running < c.limit && len(c.turnQueue) > 0 {
		close(c.turnQueue[0])
		c.turnQueue = c.turnQueue[1:]
		c.running++
	}
	if c.running == 0 && c.expected == 0 && len(c.sleepers) > 0 && c.advance != nil {
		c.advancing = true
		go c.advanceToNext()
	}
}

// Until waits until a time of the clock. Other cases run meanwhile.
func (c *Clock) Until(ctx context.Context, t time.Time) error {
	c.mu.Lock()
	if c.advanceErr != nil {
		defer c.mu.Unlock()
		return c.advanceErr
	}
	self := &sleeper{until: t, woken: make(chan struct{})}
	if !c.stopped {
		self.due = time.AfterFunc(t.Sub(c.now()), func() { c.wakeDue(self) })
		defer self.due.Stop()
	}
	c.sleepers[self] = true
	c.running--
	c.dispatch()
	c.mu.Unlock()
	select {
	case <-self.woken:
		return self.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	if c.sleepers[self] {
		c.wakeSleeper(self)
	}
	c.mu.Unlock()
	<-self.woken
	return ctx.Err()
}

// advanceToNext advances the clock to the earliest sleepers and wakes them.
func (c *Clock) advanceToNext() {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		c.advancing = false
		c.dispatch()
	}()
	if d := c.nextWakeTime().Sub(c.now()); d > 0 {
		c.step = d
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // the target may never answer
		now, err := c.advance(ctx, d)
		cancel()
		c.mu.Lock()
		if err != nil {
			c.advanceErr = err
		} else {
			c.lastTime, c.readAt = now, time.Now()
		}
	}
	now := c.now()
	for sl := range c.sleepers {
		switch {
		case c.advanceErr != nil || !sl.until.After(now):
			sl.err = c.advanceErr
			c.wakeSleeper(sl)
		case sl.due != nil:
			sl.due.Reset(sl.until.Sub(now)) // the advance has brought it nearer
		}
	}
}

// nextWakeTime returns the time of the last sleeper that waits at most wakeSlack longer than the first one. Without
// sleepers it is zero.
func (c *Clock) nextWakeTime() (target time.Time) {
	var first time.Time
	for sl := range c.sleepers {
		if first.IsZero() || sl.until.Before(first) {
			first = sl.until
		}
	}
	for sl := range c.sleepers {
		if sl.until.After(target) && sl.until.Sub(first) <= wakeSlack {
			target = sl.until
		}
	}
	return target
}

// wakeSleeper queues a sleeper for a turn. Unless the clock is stopped, it gets the turn at once.
func (c *Clock) wakeSleeper(sl *sleeper) {
	delete(c.sleepers, sl)
	if c.stopped {
		c.turnQueue = append(c.turnQueue, sl.woken)
		c.dispatch()
		return
	}
	c.running++
	close(sl.woken)
}

// wakeDue wakes a sleeper whose time has come. During an advance, advanceToNext wakes it.
func (c *Clock) wakeDue(sl *sleeper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sleepers[sl] && !c.advancing {
		c.wakeSleeper(sl)
	}
}
