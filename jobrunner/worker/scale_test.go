package worker

import (
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

func TestDesired(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	ago := func(s float64) time.Time { return now.Add(-time.Duration(s * float64(time.Second))) }
	delay := Endpoint{Max: 3, ScalerValue: 4}
	requests := Endpoint{Max: 10, ScalerValue: 4, ByRequests: true}
	for name, c := range map[string]struct {
		e          Endpoint
		load       engine.Load
		have, idle int
		added      time.Time
		want       int
		again      time.Duration
	}{
		"nothing to do":                       {delay, engine.Load{}, 0, 0, time.Time{}, 0, recheck},
		"first job":                           {delay, engine.Load{Waiting: 1, Oldest: now}, 0, 0, time.Time{}, 1, recheck},
		"many first jobs":                     {delay, engine.Load{Waiting: 9, Oldest: now}, 0, 0, time.Time{}, 1, recheck},
		"no worker allowed":                   {Endpoint{ScalerValue: 4}, engine.Load{Waiting: 9, Oldest: now}, 0, 0, time.Time{}, 0, recheck},
		"an idle worker will take it":         {delay, engine.Load{Waiting: 1, Oldest: ago(60)}, 1, 1, ago(60), 1, recheck},
		"has not waited long enough":          {delay, engine.Load{Waiting: 1, Running: 1, Oldest: ago(3)}, 1, 0, ago(60), 1, time.Second},
		"has waited for the delay":            {delay, engine.Load{Waiting: 1, Running: 1, Oldest: ago(4)}, 1, 0, ago(60), 2, 4 * time.Second},
		"a worker was just added":             {delay, engine.Load{Waiting: 5, Running: 2, Oldest: ago(60)}, 2, 0, ago(1), 2, 3 * time.Second},
		"never more than the maximum":         {delay, engine.Load{Waiting: 5, Running: 3, Oldest: ago(60)}, 3, 0, ago(60), 3, 4 * time.Second},
		"the minimum":                         {Endpoint{Min: 2, Max: 3, ScalerValue: 4}, engine.Load{}, 0, 0, time.Time{}, 2, recheck},
		"requests: one":                       {requests, engine.Load{Waiting: 1}, 0, 0, time.Time{}, 1, recheck},
		"requests: four":                      {requests, engine.Load{Waiting: 4}, 0, 0, time.Time{}, 1, recheck},
		"requests: five":                      {requests, engine.Load{Waiting: 5}, 0, 0, time.Time{}, 2, recheck},
		"requests: running ones count":        {requests, engine.Load{Waiting: 5, Running: 4}, 1, 0, time.Time{}, 3, recheck},
		"requests: never more":                {requests, engine.Load{Waiting: 500}, 1, 0, time.Time{}, 10, recheck},
		"requests: idle ones end by time-out": {requests, engine.Load{}, 3, 3, time.Time{}, 3, recheck},
	} {
		want, again := c.e.desiredCount(c.load, c.have, c.idle, now, c.added)
		if want != c.want || again != c.again {
			t.Errorf("%s: %d workers, evaluate again in %s; expected %d in %s", name, want, again, c.want, c.again)
		}
	}
}
