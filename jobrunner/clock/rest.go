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

// Why a look at the scheduler tells that nothing goes on: a goroutine that neither
// runs nor could run, and is in no call of the system, waits for another goroutine,
// a connection, or a timer. If all do, those that wait for each other wait on;
// connections that have data were polled just before (pollNetwork: within a machine
// the kernel has it ready when the sender's call returns); the Clock's timers fire
// by Advance alone. So nothing happens any more, but by real timers and other
// processes: who waits for these says so as work (Clock.Work). The counts are not
// read in one moment, and a goroutine may pass from one to the other in between:
// hence several looks in a row, during which no timer, work or goroutine may have
// begun or ended either (Clock.activity). What is left is a chain of wake-ups that
// is missed by each of twenty looks.

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
