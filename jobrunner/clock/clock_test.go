package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		start := c.Now()
		if !start.Equal(time.Now()) {
			t.Errorf("the clock says %s, the time is %s", start, time.Now())
		}
		if err := c.Sleep(t.Context(), 7*24*time.Hour); err != nil {
			t.Fatal(err)
		}
		if d := c.Now().Sub(start); d != 7*24*time.Hour {
			t.Errorf("slept %s", d)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cut short: %v", err)
		}

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
