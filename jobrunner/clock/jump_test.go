package clock_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// patched is a fake time of day that can jump.
type patched struct{ by atomic.Int64 }

func (p *patched) now() time.Time { return time.Now().Add(time.Duration(p.by.Load())).Round(0) }

func (p *patched) jump(d time.Duration) { p.by.Add(int64(d)) }

func TestJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var day patched
		c := clock.New(day.now)
		start, total := c.Now(), time.Duration(0)
		timer := c.NewTimer(time.Hour)
		for _, d := range []time.Duration{2 * time.Hour, -3 * time.Hour, time.Second, 1000 * 24 * time.Hour, -time.Minute} {
			time.Sleep(time.Minute)
			total += time.Minute
			day.jump(d)
			must.Equal(t, c.Now().Sub(start), total, "after a jump by", d, "the clock says that", "have passed")
			want := d
			if d == time.Second { // below minJump
				want = 0
			}
			got := c.Look()
			must.Hold(t, (got-want).Abs() <= time.Second && (want != 0 || got == 0), "noticed a jump by", got, want)
			must.Equal(t, c.Look(), 0, "noticed a jump by", "again")
			off := c.Wall().Sub(day.now()).Abs()
			must.Hold(t, off <= time.Second, "after a jump by", d, "the time of day is wrong by", off)
		}
		select {
		case <-timer.C:
			t.Error("a timer of an hour fired after five minutes")
		default:
		}
	})
}

// The first Correct sets the clock by the shared database. Later small differences are
// corrected, and a jump is reported but not applied.
func TestJumpOfAnotherClock(t *testing.T) {
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
			must.Equal(t, c.Correct(step.behind), step.jump, "behind by", step.behind, "noticed a jump by")
			must.Equal(t, c.Now().Sub(start), step.now, "behind by", step.behind, "now")
			must.Equal(t, c.Wall().Sub(start), step.wall, "behind by", step.behind, "the time of day")
		}
	})
}
