package engine

import "time"

const (
	// sliceTime is how long one transaction of many that change a great number of jobs
	// should keep the writer from others, and minSlice how many jobs it changes however
	// slow that is.
	sliceTime = 3 * time.Millisecond
	minSlice  = 16
	// sliceTimeInMemory is less than the millisecond after which a mutex is handed from one
	// goroutine to the next, each of which has to be woken first.
	sliceTimeInMemory = sliceTime / 6
)

// slice is how many jobs the next of such transactions changes.
type slice struct {
	jobs int
	time time.Duration // that it should take
}

func (e *Engine) newSlice() slice {
	if e.db.InMemory() {
		return slice{minSlice, sliceTimeInMemory}
	}
	return slice{minSlice, sliceTime}
}

// adapt makes the next transaction last as long as it should, as n jobs took so long.
func (s *slice) adapt(n int, took time.Duration) {
	fit := maxSlice
	if took > 0 {
		fit = int(min(int64(n)*int64(s.time)/int64(took), maxSlice))
	}
	s.jobs = max(minSlice, min(fit, 2*s.jobs))
}
