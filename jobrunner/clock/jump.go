package clock

import "time"

// Durations go by the monotonic clock: nothing times out early, late or never
// because the time of day jumped, as when a machine wakes up, or its clock is
// set. Until the process ends, Now goes on as if there had been no jump; Wall is
// the time of day, for what people read.

// reading is the time of day at a moment, and that moment by the monotonic clock.
type reading struct{ wall, monotonic time.Time }

// New is a Clock that takes the time of day from wall: for tests of its jumps.
func New(wall func() time.Time) *Clock { return &Clock{wall: wall} }

func (c *Clock) timeOfDay() time.Time {
	if c.wall != nil {
		return c.wall()
	}
	return time.Now()
}

// passed is the time by this machine's clocks alone.
func (c *Clock) passed() time.Time {
	start := c.start.Load()
	if start == nil {
		c.start.CompareAndSwap(nil, &reading{c.timeOfDay(), time.Now()})
		start = c.start.Load()
	}
	return start.wall.Add(time.Since(start.monotonic))
}

// Wall is the time of day.
func (c *Clock) Wall() time.Time { return c.Now().Add(time.Duration(c.ahead.Load())) }

// minJump is what counts as a jump: more than a clock is ever slewed by, or a
// measurement over a network is wrong by.
const minJump = 2 * time.Second

// Look compares the time of day with the time that passed. It answers by how
// much the time of day has jumped since the last look: 0 for not at all, less
// than 0 for backward.
func (c *Clock) Look() (jump time.Duration) {
	return c.note(c.timeOfDay().Round(0).Sub(c.passed().Round(0)))
}

func (c *Clock) note(ahead time.Duration) (jump time.Duration) {
	jump = ahead - time.Duration(c.ahead.Load())
	if jump.Abs() < minJump {
		return 0
	}
	c.ahead.Store(int64(ahead))
	return jump
}

// Correct says how far the time that passed here is behind the one that counts,
// of a database that several machines share: ahead, where it is negative. The
// first time that decides what Now is; later, small differences do, and a large
// one is a jump of the other clock, which is answered as Look does. Timers wait
// as long as they would have. Differences that a measurement over a network may
// well have are ignored.
func (c *Clock) Correct(behind time.Duration) (jump time.Duration) {
	first, differs := !c.corrected.Swap(true), behind-time.Duration(c.wrong.Load())
	if !first && differs.Abs() >= minJump {
		return c.note(differs)
	}
	if differs.Abs() > tolerance {
		c.wrong.Store(int64(behind))
	}
	return c.note(0) // what had jumped is back
}

const tolerance = 100 * time.Millisecond

// Passed is the time that Correct compares.
func (c *Clock) Passed() time.Time { return c.passed() }
