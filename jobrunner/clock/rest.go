package clock

import (
	"runtime"
	"runtime/metrics"
)

const (
	looks = 100 // at most: whoever is still busy then may be for long
	calm  = 10  // looks in a row: a goroutine that the collector holds up looks as if it waited
)

// atRest lets the other goroutines of the process run, and tells whether every
// one of them waits for something. Most of what a timer wakes has acted after a
// few microseconds; the shortest sleep takes a millisecond, and a long advance
// has thousands of steps.
func atRest() bool {
	busy := []metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"}, // this one is among them
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/not-in-go:goroutines"},
	}
	resting := 0
	for range looks {
		runtime.Gosched()
		metrics.Read(busy)
		resting++
		if busy[0].Value.Uint64() > 1 || busy[1].Value.Uint64() > 0 || busy[2].Value.Uint64() > 0 {
			resting = 0
		}
		if resting == calm {
			return true
		}
	}
	return false
}
