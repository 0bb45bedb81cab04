package clock

import (
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	// atRest gives up after maxChecks or maxCheckTime: the process may stay busy for long.
	maxChecks    = 100
	maxCheckTime = 5 * time.Millisecond
	// calmChecks is the required number of consecutive checks without activity. One isn't
	// enough: a goroutine that the garbage collector has stopped seems to wait.
	calmChecks = 10
)

// Advance moves the time once everything that the last timer woke has reacted. Counting work
// explicitly (Clock.BeginWork, timers, goroutines) can't detect that: our code can't count a request
// while its bytes are in the kernel, and each hand-over between goroutines would need its own
// count. With such counts alone, TestAdvance fails in two of ten runs, and
// TestAdvanceWaitsForTheNetwork in every run. So atRest asks Go's scheduler.
//
// A goroutine that neither runs nor can run, and isn't in a system call, waits for another
// goroutine, a connection or a timer. If all goroutines wait, nothing happens until a
// connection has data, a timer fires or a system call returns. Connections have just been
// polled (pollNetwork): on one machine the kernel has the data when the sender's call
// returns. The timers of a stopped Clock fire only in Advance. Code that waits for a real timer or
// another process counts that as work (Clock.BeginWork).
//
// The scheduler's counts aren't read atomically, and a goroutine may move from one count to another
// meanwhile. Therefore several consecutive checks must find all goroutines waiting, and no
// timer, work or goroutine may begin or end during them (Clock.activity). Only a chain of
// wake-ups that all of these checks miss remains undetected.

// atRest lets the other goroutines run, and reports whether all of them wait, except at most
// maxCalls goroutines in system calls. calls is the latest number of goroutines in system
// calls. atRest usually takes a few microseconds. It doesn't sleep: the shortest sleep takes a
// millisecond, and a long advance has thousands of steps.
func atRest(maxCalls uint64) (resting bool, calls uint64) {
	state := []metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"}, // includes this one
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/not-in-go:goroutines"},
	}
	calm, start := 0, time.Now()
	for range maxChecks {
		runtime.Gosched()
		metrics.Read(state)
		calm++
		calls = state[2].Value.Uint64()
		if calls > maxCalls || state[0].Value.Uint64() > 1 || state[1].Value.Uint64() > 0 {
			calm = 0
		}
		switch {
		case calm == calmChecks:
			return true, calls
		case time.Since(start) > maxCheckTime:
			return false, calls
		}
	}
	return false, calls
}
