package clock

import (
	"os"
	"os/signal"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A program that waits for signals is always in a system call. Only the first advance waits, in vain, for its end.
func TestAdvanceIgnoresPermanentCalls(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	var c Clock
	c.Advance(time.Second)
	for start := time.Now(); ; { // the garbage collector may run
		if resting, _ := atRest(c.longCalls.Load() - 1); resting {
			return
		}
		must.Require(t, time.Since(start) <= 3*time.Minute, "the process isn't at rest after", time.Since(start))
	}
}

func TestRunningGoroutineIsNotAtRest(t *testing.T) {
	var stop atomic.Bool
	defer stop.Store(true)
	began := make(chan struct{})
	go func() {
		close(began)
		for !stop.Load() {
		}
	}()
	<-began
	for range 100 {
		resting, _ := atRest(1 << 20)
		must.Require(t, !resting, "a process is at rest while a goroutine runs")
	}
}
