package clock_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
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
		if !start.Equal(time.Now()) {
			t.Errorf("the clock says %s, the time is %s", start, time.Now())
		}
		must.Succeed(t, c.Sleep(t.Context(), 7*24*time.Hour))
		must.Equal(t, c.Now().Sub(start), 7*24*time.Hour, "slept")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.FailWith(t, c.Sleep(ctx, time.Hour), context.DeadlineExceeded, "a cancelled sleep")

		short, long := c.NewTimer(time.Minute), c.NewTimer(time.Hour)
		if at := <-short.C; !at.Equal(c.Now()) {
			t.Errorf("fired at %s, now is %s", at, c.Now())
		}
		long.Stop()
		time.Sleep(2 * time.Hour)
		select {
		case <-long.C:
			t.Error("a stopped timer fired")
		default:
		}
	})
}

// During an advance, due timers fire in order, each at its own time, and so do the timers that
// they start. Later timers are due earlier by the length of the advance. The clock runs here, so
// the advance itself takes a fraction of a second.
func TestAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		start := c.Now()
		var mu sync.Mutex
		var fired []string
		seen := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(fired)
		}
		wait := func(name string, d time.Duration, then func()) {
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
		wait("third", 3*time.Hour, nil)
		wait("first", time.Hour, func() { wait("second", time.Hour, nil) })
		wait("later", 49*time.Hour, nil)
		stopped := c.NewTimer(2 * time.Hour)
		stopped.Stop()
		c.Advance(48 * time.Hour)
		want := []string{"first 1h0m0s", "second 2h0m0s", "third 3h0m0s"}
		must.Equal(t, seen(), want, "fired")
		must.Equal(t, c.Now().Sub(start).Round(time.Second), 48*time.Hour, "the clock moved by")
		time.Sleep(59 * time.Minute)
		got := seen()
		must.Hold(t, len(got) == 3, "fired too early", got)
		time.Sleep(time.Minute)
		synctest.Wait()
		got = seen()
		must.Hold(t, len(got) == 4 && got[3] == "later 49h0m0s", "real time after the advance: fired", got)
	})
}

// Correct corrects differences above the tolerance, and running timers keep their durations.
func TestCorrect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		timer := c.NewTimer(time.Minute)
		for _, step := range []struct{ behind, want time.Duration }{
			{50 * time.Millisecond, 0}, {time.Second, time.Second}, {time.Second + 50*time.Millisecond, time.Second}, {-time.Second / 2, -time.Second / 2}, {0, 0},
		} {
			c.Correct(step.behind)
			must.Equal(t, time.Until(c.Now()), step.want, "corrected by", step.behind, "off by", "not by")
		}
		c.Correct(time.Second)
		time.Sleep(time.Minute - 1)
		select {
		case <-timer.C:
			t.Error("a correction fired a timer")
		default:
		}
		<-timer.C
	})
}

// A stopped clock doesn't advance by itself. It fires timers when it is advanced, or at once if
// they are due already.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		before := c.NewTimer(time.Minute)
		c.Stop()
		c.Stop()
		start := c.Now()
		after, due := c.NewTimer(2*time.Minute), c.NewTimer(0)
		<-due.C
		time.Sleep(time.Hour)
		if now := c.Now(); !now.Equal(start) || len(before.C)+len(after.C) > 0 {
			t.Errorf("%s passed, %d and %d fired", now.Sub(start), len(before.C), len(after.C))
		}
		c.Advance(time.Minute)
		if at := <-before.C; !at.Equal(start.Add(time.Minute)) || len(after.C) > 0 {
			t.Errorf("fired at %s, and %d after", at.Sub(start), len(after.C))
		}
		time.Sleep(time.Hour)
		c.Advance(time.Minute)
		if at := <-after.C; !at.Equal(start.Add(2*time.Minute)) || !c.Now().Equal(at) {
			t.Errorf("fired at %s, now is %s", at.Sub(start), c.Now().Sub(start))
		}
	})
}

// An advance waits for the work that a timer starts, so that timers that are started after the
// work fire on time.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		c.Stop()
		start := c.Now()
		var took []time.Duration
		go func() {
			for range 4 {
				if c.Sleep(t.Context(), time.Minute) != nil {
					return
				}
				end := c.Work()
				time.Sleep(50 * time.Millisecond)
				took = append(took, c.Now().Sub(start))
				end()
			}
		}()
		synctest.Wait()
		c.Advance(10 * time.Minute)
		must.Equal(t, took, []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, "worked after", "not after")
		// An advance waits only once, and briefly, for work that never ends.
		defer c.Work()()
		for range 10 {
			c.NewTimer(time.Minute)
		}
		began := time.Now()
		if c.Advance(time.Hour); time.Since(began) > 5*time.Second {
			t.Errorf("an advance took %s", time.Since(began))
		}
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

// Everything that was sent to this process before an advance is handled before the time moves,
// even on a busy machine.
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
	c.Advance(time.Second) // learns the number of permanent system calls
	for i := range 500 {
		conn := must.Do(net.Dial("tcp", listener.Addr().String()))(t)
		must.Do(conn.Write([]byte{0}))(t)
		before := c.Now()
		c.Advance(time.Hour)
		if at := <-received; !at.Equal(before) {
			t.Fatalf("round %d: received %s after the advance began", i, at.Sub(before))
		}
		conn.Close()
	}
}
