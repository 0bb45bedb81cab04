package main

import (
	"os"
	"runtime/debug"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

const (
	// baseHeap is the heap without bodies in flight.
	baseHeap = 128 << 20
	// gcPercent lets the heap grow to several times the live heap, which is small: SQLite's
	// memory isn't in it.
	gcPercent = 400
)

// limitHeap sets the garbage collector's limit to baseHeap and the budget of bodies in flight, but
// at most to three quarters of the machine's or container's memory without the in-memory state.
// GOGC and GOMEMLIMIT take precedence.
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
