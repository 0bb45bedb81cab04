package main

import (
	"os"
	"runtime/debug"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

const (
	// baseHeap is the heap beside bodies in flight.
	baseHeap = 128 << 20
	// gcPercent lets the small heap of a busy jobrunner grow to several times what
	// is live: a request leaves little, and SQLite's memory isn't in the heap.
	gcPercent = 400
)

// limitHeap makes the garbage collector keep the heap within the budget of bodies in
// flight, and within three quarters of what the machine or container has beside a
// state in memory. GOGC and GOMEMLIMIT, where they are set, take precedence.
func limitHeap(bodies, state int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimit(bodies, state, httplimit.MachineMemory()))
	}
}

func heapLimit(bodies, state, machine int64) int64 {
	limit := bodies + baseHeap
	if machine > 0 {
		limit = min(limit, max((machine-state)/4*3, baseHeap))
	}
	return limit
}
