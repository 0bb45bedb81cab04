package clock

import "time"

// Durations follow the monotonic clock, so that timeouts don't depend on jumps of the time
// of day, as when a machine wakes up or its clock is set. The method Now ignores jumps until the
// process ends. Wall returns the time of day, for timestamps that people read.

// reading is a simultaneous reading of the time of day and the monotonic clock.
type reading struct{ wall, monotonic time.Time }

// New returns a Clock that reads the time of day from wall, for tests of jumps.
func New(wall func() time.Time) *Clock { return &Clock{wall: wall} }

func (c *Clock) timeOfDay() time.Time {
	if c.wall != nil {
		return c.wall()
	}
	return time.Now()
}

// MachineTime returns the first call's time of day plus the monotonic time since then, without offset and correction.
func (c *Clock) MachineTime() time.Time {
	start := c.start.Load()
	if start == nil {
		c.start.CompareAndSwap(nil, &reading{c.timeOfDay(), time.Now()})
		start = c.start.Load()
	}
	return start.wall.Add(time.Since(start.monotonic))
}

func (c *Clock) Wall() time.Time { return c.Now().Add(c.Ahead()) }

// Ahead returns by how much jumps have moved the time of day ahead.
func (c *Clock) Ahead() time.Duration { return time.Duration(c.ahead.Load()) }

// minJump is the smallest difference that is a jump. Slewing and measuring over a network cause smaller ones.
const minJump = 2 * time.Second

// MeasureJump compares the time of day with the monotonic clock. It returns by how much the time of
// day has jumped since the last call; a negative jump is backward.
func (c *Clock) MeasureJump() (jump time.Duration) {
	return c.setAhead(c.timeOfDay().Round(0).Sub(c.MachineTime().Round(0)))
}

// setAhead records by how much the time of day is ahead, if that is a jump.
func (c *Clock) setAhead(ahead time.Duration) (jump time.Duration) {
	jump = ahead - time.Duration(c.ahead.Load())
	if jump.Abs() < minJump {
		return 0
	}
	c.ahead.Store(int64(ahead))
	return jump
}

// Correct sets Now by the clock of a database that several machines share. behind is how far MachineTime is
// behind the database's clock; it may be negative. Correct ignores differences within the tolerance, which
// come from the measurement. Calls after the first treat a difference of minJump or more as a jump of the
// database's clock, and return it as MeasureJump does. Running timers keep their durations.
func (c *Clock) Correct(behind time.Duration) (jump time.Duration) {
	first, difference := !c.corrected.Swap(true), behind-time.Duration(c.correction.Load())
	if !first && difference.Abs() >= minJump {
		return c.setAhead(difference)
	}
	if difference.Abs() > tolerance {
		c.correction.Store(int64(behind))
	}
	return c.setAhead(0) // a jump of the database's clock may have been undone
}

const tolerance = 100 * time.Millisecond
