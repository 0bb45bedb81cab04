package clock

import (
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	// A process that is still busy after so many looks, or so long, may be busy for long.
	looks    = 100
	lookTime = 5 * time.Millisecond
	// calm is the number of consecutive looks without activity. One isn't enough: a
	// goroutine that the garbage collector stops looks as if it waited.
	calm = 10
)

// Advance moves the time when everything that the last timer woke has reacted. Explicit
// counts of work (Clock.Work, timers, goroutines) don't suffice to know that: a request over
// a connection is on its way in the kernel while no code of ours has counted it, and each
// hand-over between goroutines would need a count of its own. With these counts alone,
// TestAdvance fails in two of ten runs, and TestAdvanceWaitsForTheNetwork in all of them. So
// atRest asks Go's scheduler.
//
// A goroutine that neither runs nor can run, and isn't in a system call, waits for another
// goroutine, a connection or a timer. If all goroutines wait, nothing happens until a
// connection has data, a timer fires or a system call returns. Connections have just been
// polled (pollNetwork): on one machine the kernel has the data when the sender's call
// returns. The Clock's timers fire only in Advance. Code that waits for a real timer or
// another process counts that as work (Clock.Work).
//
// The scheduler's counts aren't read at one moment, and a goroutine may move between them
// meanwhile. Therefore several consecutive looks count, during which no timer, work or
// goroutine begins or ends (Clock.activity). Only a chain of wake-ups that each of twenty
// looks misses remains undetected.

// atRest lets the other goroutines run, and reports whether all of them wait and at most
// inCalls of them are in system calls. calls is their latest number. Mostly a few
// microseconds are enough. It doesn't sleep: the shortest sleep takes a millisecond, and a
// long advance has thousands of steps.
func atRest(inCalls uint64) (rests bool, calls uint64) {
	state := []metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"}, // includes this one
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
