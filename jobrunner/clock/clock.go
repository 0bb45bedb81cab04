// Package clock is the jobrunner's time. Whatever reads the time or waits for
// it does so through one Clock, so that time is a value like any other.
package clock

import (
	"context"
	"sync/atomic"
	"time"
)

// Clock is real time plus an offset, which starts at zero. The zero Clock is
// ready for use. Inside a testing/synctest bubble, where real time is virtual,
// so is the Clock's.
type Clock struct {
	offset atomic.Int64 // nanoseconds
}

// Now is the time.
func (c *Clock) Now() time.Time {
	return time.Now().Add(time.Duration(c.offset.Load()))
}

// Timer sends the time on C once, when its duration has passed.
type Timer struct {
	C    <-chan time.Time
	real *time.Timer
}

// NewTimer starts a timer.
func (c *Clock) NewTimer(d time.Duration) *Timer {
	t := time.NewTimer(d)
	return &Timer{t.C, t}
}

// Stop ends a timer that is not needed any more.
func (t *Timer) Stop() { t.real.Stop() }

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
