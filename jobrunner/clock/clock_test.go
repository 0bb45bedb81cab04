package clock_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		start := c.Now()
		must.Hold(t, start.Equal(time.Now()), "the clock says", start, "the time is", time.Now())
		must.Succeed(t, c.Sleep(t.Context(), 7*24*time.Hour))
		must.Equal(t, c.Now().Sub(start), 7*24*time.Hour, "the time that Sleep took")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.ErrorIs(t, c.Sleep(ctx, time.Hour), context.DeadlineExceeded, "a cancelled sleep")

		short, long := c.NewTimer(time.Minute), c.NewTimer(time.Hour)
		at := <-short.C
		must.Hold(t, at.Equal(c.Now()), "fired at", at, "now is", c.Now())
		long.Stop()
		time.Sleep(2 * time.Hour)
		must.Equal(t, len(long.C), 0, "how often a stopped timer fired")
	})
}

// During an advance, due timers fire in order, each at its own time, and so do the timers that
// they start. An advance of 48 hours makes later timers fire 48 hours earlier in real time. The clock isn't
// stopped here, so it also moves by the real time that the advance takes.
func TestAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		start := c.Now()
		var mu sync.Mutex
		var fired []string
		firedTimers := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(fired)
		}
		startTimer := func(name string, d time.Duration, then func()) {
			timer := c.NewTimer(d)
			go func() {
				at := <-timer.C
				mu.Lock()
				fired = append(fired, fmt.Sprint(name, " ", at.Sub(start).Round(10*time.Millisecond)))
				mu.Unlock()
				if then != nil {
					then()
				}
			}()
		}
		startTimer("third", 3*time.Hour, nil)
		startTimer("first", time.Hour, func() { startTimer("second", time.Hour, nil) })
		startTimer("later", 49*time.Hour, nil)
		c.NewTimer(2 * time.Hour).Stop()
		c.Advance(48 * time.Hour)
		must.Equal(t, firedTimers(), []string{"first 1h0m0s", "second 2h0m0s", "third 3h0m0s"}, "the fired timers")
		must.Equal(t, c.Now().Sub(start).Round(time.Second), 48*time.Hour, "the time by which the clock moved")
		time.Sleep(59 * time.Minute)
		got := firedTimers()
		must.Hold(t, len(got) == 3, "a minute before the fourth timer is due, these timers have fired:", got)
		time.Sleep(time.Minute)
		synctest.Wait()
		got = firedTimers()
		must.Hold(t, len(got) == 4 && got[3] == "later 49h0m0s", "an hour of real time after the advance, these timers have fired:", got)
	})
}

// Correct corrects differences above the tolerance of 100 ms, and running timers keep their durations. behind is
// how far this machine's time is behind the database's; want is how far Now is then ahead of real time.
func TestCorrect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		timer := c.NewTimer(time.Minute)
		for _, step := range []struct{ behind, want time.Duration }{
			{50 * time.Millisecond, 0}, {time.Second, time.Second}, {time.Second + 50*time.Millisecond, time.Second}, {-time.Second / 2, -time.Second / 2}, {0, 0},
		} {
			c.Correct(step.behind)
			must.Equal(t, time.Until(c.Now()), step.want, "the difference after a correction by", step.behind)
		}
		c.Correct(time.Second)
		time.Sleep(time.Minute - 1)
		must.Equal(t, len(timer.C), 0, "how often a correction fired a timer")
		<-timer.C
	})
}

// A stopped clock doesn't advance by itself. It fires a timer when it is advanced, or at once if the timer is due.
func TestStoppedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		early := c.NewTimer(time.Minute)
		c.Stop()
		c.Stop()
		start := c.Now()
		late, due := c.NewTimer(2*time.Minute), c.NewTimer(0)
		<-due.C
		time.Sleep(time.Hour)
		now := c.Now()
		must.Hold(t, now.Equal(start) && len(early.C)+len(late.C) == 0, "the stopped clock moved by", now.Sub(start), "and fired", len(early.C)+len(late.C), "timers")
		c.Advance(time.Minute)
		at := <-early.C
		must.Hold(t, at.Equal(start.Add(time.Minute)) && len(late.C) == 0, "the timer of 1 minute fired at", at.Sub(start), "and the timer of 2 minutes", len(late.C), "times")
		time.Sleep(time.Hour)
		c.Advance(time.Minute)
		at = <-late.C
		must.Hold(t, at.Equal(start.Add(2*time.Minute)) && c.Now().Equal(at), "fired at", at.Sub(start), "now is", c.Now().Sub(start))
	})
}

// An advance waits for the work that a timer starts, so that timers started after it fire on time.
func TestAdvanceWaitsForWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		c.Stop()
		start := c.Now()
		var times []time.Duration
		go func() {
			for range 4 {
				if c.Sleep(t.Context(), time.Minute) != nil {
					return
				}
				end := c.BeginWork()
				time.Sleep(50 * time.Millisecond)
				times = append(times, c.Now().Sub(start))
				end()
			}
		}()
		synctest.Wait()
		c.Advance(10 * time.Minute)
		must.Equal(t, times, []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, "when the work ended")
		// An advance waits only once, and briefly, for work that never ends.
		defer c.BeginWork()()
		for range 10 {
			c.NewTimer(time.Minute)
		}
		realStart := time.Now()
		c.Advance(time.Hour)
		must.Hold(t, time.Since(realStart) <= 5*time.Second, "an advance with work that never ends took", time.Since(realStart), "of real time")
	})
}

// BenchmarkAdvance measures a step of an advance with many timers.
func BenchmarkAdvance(b *testing.B) {
	var c clock.Clock
	c.Stop()
	for range 10 {
		go func() {
			for c.Sleep(b.Context(), time.Second) == nil {
			}
		}()
	}
	for b.Loop() {
		c.Advance(time.Second)
	}
}

// Data that was sent to this process before an advance is handled before the time moves.
func TestAdvanceWaitsForTheNetwork(t *testing.T) {
	listener := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	var c clock.Clock
	c.Stop()
	received := make(chan time.Time, 1)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					received <- c.Now()
				}
			}()
		}
	}()
	defer listener.Close()
	c.Advance(time.Second) // learns how many goroutines stay in a system call
	for i := range 500 {
		conn := must.Do(net.Dial("tcp", listener.Addr().String()))(t)
		must.Do(conn.Write([]byte{0}))(t)
		before := c.Now()
		c.Advance(time.Hour)
		at := <-received
		must.Require(t, at.Equal(before), "in round", i, "the byte was read after the clock had moved by", at.Sub(before))
		conn.Close()
	}
}

// jumpingClock is a fake time of day that can jump.
type jumpingClock struct{ offset atomic.Int64 }

func (j *jumpingClock) now() time.Time {
	return time.Now().Add(time.Duration(j.offset.Load())).Round(0)
}

func TestNowIgnoresJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var day jumpingClock
		c := clock.New(day.now)
		start, total := c.Now(), time.Duration(0)
		timer := c.NewTimer(time.Hour)
		for _, d := range []time.Duration{2 * time.Hour, -3 * time.Hour, time.Second, 1000 * 24 * time.Hour, -time.Minute} {
			time.Sleep(time.Minute)
			total += time.Minute
			day.offset.Add(int64(d))
			must.Equal(t, c.Now().Sub(start), total, "the time that has passed by the clock after a jump by", d)
			want := d
			if d == time.Second { // below minJump
				want = 0
			}
			got := c.MeasureJump()
			must.Hold(t, (got-want).Abs() <= time.Second && (want != 0 || got == 0), "measured a jump by", got, "want", want)
			must.Equal(t, c.MeasureJump(), 0, "a second measurement of the jump")
			off := c.Wall().Sub(day.now()).Abs()
			must.Hold(t, off <= time.Second, "after a jump by", d, "the time of day is wrong by", off)
		}
		must.Equal(t, len(timer.C), 0, "how often a timer of an hour fired within five minutes")
	})
}

// The first Correct sets the clock. Later ones correct small differences, and return a large one as a jump of Wall.
func TestJumpOfTheDatabaseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(clock.Clock)
		start := time.Now()
		for _, step := range []struct{ behind, jump, now, wall time.Duration }{
			{10 * time.Hour, 0, 10 * time.Hour, 10 * time.Hour},
			{10*time.Hour + time.Second, 0, 10*time.Hour + time.Second, 10*time.Hour + time.Second},
			{12*time.Hour + time.Second, 2 * time.Hour, 10*time.Hour + time.Second, 12*time.Hour + time.Second},
			{12*time.Hour + time.Second, 0, 10*time.Hour + time.Second, 12*time.Hour + time.Second},
			{10*time.Hour + time.Second, -2 * time.Hour, 10*time.Hour + time.Second, 10*time.Hour + time.Second},
		} {
			must.Equal(t, c.Correct(step.behind), step.jump, "the jump for a lag of", step.behind)
			must.Equal(t, c.Now().Sub(start), step.now, "the time of Now for a lag of", step.behind)
			must.Equal(t, c.Wall().Sub(start), step.wall, "the time of day for a lag of", step.behind)
		}
	})
}
