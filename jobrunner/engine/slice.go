package engine

import "time"

const (
	// sliceTime is how long one transaction of many that change a great number of jobs
	// should keep the writer from others, and minSlice how many jobs it changes however
	// slow that is.
	sliceTime = 3 * time.Millisecond
	minSlice  = 16
)

// slice is how many jobs the next of such transactions changes.
type slice struct{ jobs int }

func newSlice() slice { return slice{minSlice} }

// adapt makes the next transaction last sliceTime, as n jobs took so long.
func (s *slice) adapt(n int, took time.Duration) {
	fit := maxSlice
	if took > 0 {
		fit = int(min(int64(n)*int64(sliceTime)/int64(took), maxSlice))
	}
	s.jobs = max(minSlice, min(fit, 2*s.jobs))
}
