package clock

import (
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	// Whoever is still busy after so many looks, or so long, may be for long.
	looks    = 100
	lookTime = 5 * time.Millisecond
	// Looks in a row: a goroutine that the collector holds up looks as if it waited.
	calm = 10
)

// atRest lets the other goroutines of the process run, and tells whether every
// one of them waits for something. Most of what a timer wakes has acted after a
// few microseconds; the shortest sleep takes a millisecond, and a long advance
// has thousands of steps.
func atRest() bool {
	state := []metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"}, // this one is among them
		{Name: "/sched/goroutines/runnable:goroutines"},
		// In calls of the system: short ones, and one that waits for signals.
		{Name: "/sched/goroutines/not-in-go:goroutines"},
	}
	resting, outside, start := 0, uint64(0), time.Now()
	for range looks {
		runtime.Gosched()
		metrics.Read(state)
		resting++
		if n := state[2].Value.Uint64(); n != outside || state[0].Value.Uint64() > 1 || state[1].Value.Uint64() > 0 {
			resting, outside = 0, n
		}
		switch {
		case resting == calm:
			return true
		case time.Since(start) > lookTime:
			return false
		}
	}
	return false
}
