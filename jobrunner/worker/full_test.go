package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// countingQueue counts the reads of the load.
type countingQueue struct {
	worker.Queue
	reads atomic.Int64
}

func (a *countingQueue) Demand(ctx context.Context, endpoint string) (engine.Load, error) {
	a.reads.Add(1)
	return a.Queue.Demand(ctx, endpoint)
}

// While all workers of a full pool work, jobs don't trigger an evaluation of the load; only idle
// time-outs do. New settings apply at once.
func TestFullPoolIsNotEvaluatedForEachJob(t *testing.T) {
	bubbleWith(t, nil, func(c *worker.Config) *countingQueue {
		a := &countingQueue{Queue: c.Queue}
		c.Queue = a
		return a
	}, func(f *fixture, load *countingQueue) {
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
		before := load.reads.Load()
		const jobs = 50
		for range jobs {
			sleep("100")
			pass(100 * time.Millisecond)
		}
		n := load.reads.Load() - before
		must.Hold(t, n < jobs, "the load was read", n, "times while", jobs, "jobs ran one after the other")
		pass(10*time.Second + time.Millisecond)
		f.counts(worker.Counts{})
		sleep("36000000")
		sleep("36000000")
		f.counts(worker.Counts{Running: 2})
		before = load.reads.Load()
		pass(10 * time.Hour)
		n = load.reads.Load() - before
		must.Hold(t, n <= 20, "the load was read", n, "times while two jobs ran for ten hours")
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
