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
// one of them waits for something, and no more than inCalls are in a call of
// the system. Most of what a timer wakes has acted after a few microseconds; the
// shortest sleep takes a millisecond, and a long advance has thousands of steps.
// calls is how many were in one at last.
func atRest(inCalls uint64) (rests bool, calls uint64) {
	state := []metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"}, // this one is among them
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/not-in-go:goroutines"},
	}
	resting, start := 0, time.Now()
	for range looks {
		runtime.Gosched()
		metrics.Read(state)
		resting++
		calls = state[2].Value.Uint64()
		if calls > inCalls || state[0].Value.Uint64() > 1 || state[1].Value.Uint64() > 0 {
			resting = 0
		}
		switch {
		case resting == calm:
			return true, calls
		case time.Since(start) > lookTime:
			return false, calls
		}
	}
	return false, calls
}
