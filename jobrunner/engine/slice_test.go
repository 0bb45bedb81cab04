package engine

import (
	"testing"
	"time"
)

// A transaction changes as many jobs as its time allows, grows to at most twice the
// last one, and stays between the least and the most.
func TestSlices(t *testing.T) {
	for _, c := range []struct {
		jobs, changed int
		took          time.Duration
		want          int
	}{
		{minSlice, minSlice, 0, 2 * minSlice},
		{minSlice, minSlice, time.Microsecond, 2 * minSlice},
		{200, 200, 2 * sliceTime, 100},
		{200, 200, sliceTime, 200},
		{200, 200, sliceTime * 100 / 150, 300},
		{200, 200, sliceTime / 100, 400},
		{400, 400, sliceTime / 100, maxSlice},
		{maxSlice, maxSlice, 0, maxSlice},
		{200, 200, time.Hour, minSlice},
		{200, 100, sliceTime, 100},
		{200, 0, sliceTime, minSlice},
	} {
		s := slice{c.jobs, sliceTime}
		if s.adapt(c.changed, c.took); s.jobs != c.want {
			t.Errorf("after %d of %d jobs in %s: %d, expected %d", c.changed, c.jobs, c.took, s.jobs, c.want)
		}
	}
}
