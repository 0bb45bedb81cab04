package clock

import (
	"os"
	"os/signal"
	"sync/atomic"
	"testing"
	"time"
)

// A goroutine that only waits, for signals too, leaves the process at rest; one
// that runs does not.
func TestAtRest(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	defer signal.Stop(c)
	rest := false
	for start := time.Now(); !rest && time.Since(start) < 10*time.Second; { // the collector may run at first
		rest = atRest()
	}
	if !rest {
		t.Error("a process that waits for signals is not at rest")
	}
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
		if atRest() {
			t.Fatal("a process is at rest while a goroutine runs")
		}
	}
}
