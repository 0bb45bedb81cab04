package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// asked counts how often the load of a queue is asked for.
type asked struct {
	worker.Queue
	times atomic.Int64
}

func (a *asked) Demand(ctx context.Context, endpoint string) (engine.Load, error) {
	a.times.Add(1)
	return a.Queue.Demand(ctx, endpoint)
}

// While all workers that there may be work, jobs that come and go have the load
// evaluated no more often than idle workers may leave; a worker leaves when it was
// idle for its time nevertheless, and new settings count at once.
func TestAFullPoolIsNotEvaluatedForEachJob(t *testing.T) {
	bubbleWith(t, nil, func(c *worker.Config) *asked {
		a := &asked{Queue: c.Queue}
		c.Queue = a
		return a
	}, func(f *fixture, load *asked) {
		settings := worker.Endpoint{ID: "ep", Version: 1, Max: 2, IdleTimeout: 10 * time.Second, ScalerValue: 1, ByRequests: true}
		settings.Image = "builtin/conformance"
		f.pools.Set(settings)
		sleep := func(ms string) engine.Job {
			return f.submit(engine.NewJob{Input: []byte(`{"op": "sleep", "ms": ` + ms + `}`)})
		}
		sleep("1000")
		sleep("1000")
		f.counts(worker.Counts{Running: 2})
		pass(3 * time.Second)
		f.counts(worker.Counts{Idle: 2})
		before := load.times.Load()
		const jobs = 50
		for range jobs {
			sleep("100")
			pass(100 * time.Millisecond)
		}
		if n := load.times.Load() - before; n >= jobs {
			t.Errorf("the load was asked for %d times while %d jobs ran, one after the other", n, jobs)
		}
		pass(10*time.Second + time.Millisecond)
		f.counts(worker.Counts{})
		sleep("36000000")
		sleep("36000000")
		f.counts(worker.Counts{Running: 2})
		before = load.times.Load()
		pass(10 * time.Hour)
		if n := load.times.Load() - before; n > 20 {
			t.Errorf("the load was asked for %d times while two jobs ran for ten hours", n)
		}
		pass(10*time.Second + time.Millisecond)
		f.counts(worker.Counts{})
		sleep("1000")
		sleep("1000")
		synctest.Wait()
		f.counts(worker.Counts{Running: 2})
		settings.Max = 1
		f.pools.Set(settings)
		pass(2 * time.Second)
		f.counts(worker.Counts{Idle: 1})
	})
}
