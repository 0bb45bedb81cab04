package engine

import (
	"testing"
	"time"
)

func TestTxLimitAdapts(t *testing.T) {
	for _, c := range []struct {
		jobs, changed int
		took          time.Duration
		want          int
	}{
		{minTxJobs, minTxJobs, 0, 2 * minTxJobs},
		{minTxJobs, minTxJobs, time.Microsecond, 2 * minTxJobs},
		{200, 200, 2 * txTarget, 100},
		{200, 200, txTarget, 200},
		{200, 200, txTarget * 100 / 150, 300},
		{200, 200, txTarget / 100, 400},
		{400, 400, txTarget / 100, maxTxJobs},
		{maxTxJobs, maxTxJobs, 0, maxTxJobs},
		{200, 200, time.Hour, minTxJobs},
		{200, 100, txTarget, 100},
		{200, 0, txTarget, minTxJobs},
	} {
		l := txLimit{c.jobs, txTarget}
		if l.adapt(c.changed, c.took); l.jobs != c.want {
			t.Errorf("after %d of %d jobs in %s: %d, expected %d", c.changed, c.jobs, c.took, l.jobs, c.want)
		}
	}
}
