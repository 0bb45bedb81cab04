package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// A worker that pauses while jobs wait is advised to run several jobs at once. A fast or idle worker isn't.
func TestAdviceOnPace(t *testing.T) {
	for name, c := range map[string]struct {
		pause  time.Duration
		queued int
		advice bool
	}{
		"once a second": {900 * time.Millisecond, 20, true},
		"quick":         {10 * time.Millisecond, 20, false},
		"nothing waits": {900 * time.Millisecond, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			actAsWorker(t, func(f *fixture, id string, _ chan string) {
				for range c.queued {
					f.submit(engine.NewJob{})
				}
				for range 12 {
					jobs, err := f.pools.Client(id).Take(f.t.Context(), 1)
					must.Require(f.t, err == nil && len(jobs) == 1, "took", jobs, err)
					time.Sleep(100 * time.Millisecond)
					must.Succeed(f.t, f.pools.Client(id).Report(f.t.Context(), jobs[0].ID, engine.Done(nil), false))
					if c.queued == 1 { // the next job arrives while the worker requests one
						go func() {
							time.Sleep(c.pause + time.Second)
							_, _ = f.engine.Submit(context.WithoutCancel(f.t.Context()), engine.NewJob{Endpoint: "ep", Input: []byte(`{}`)})
						}()
					}
					time.Sleep(c.pause)
				}
				advice := f.pools.Workers("ep")[0].Advice
				must.Equal(f.t, strings.Contains(advice, "concurrency_modifier"), c.advice, "whether there is advice:", advice)
				must.Equal(f.t, strings.Count(f.log.String(), "concurrency_modifier"), map[bool]int{true: 1}[c.advice], "times that the advice is logged:", f.log)
				time.Sleep(time.Second)
			})
		})
	}
}

// actAsWorker runs a test that acts as the only worker of an endpoint. started gets the ids of later workers.
func actAsWorker(t *testing.T, test func(f *fixture, id string, started chan string)) {
	t.Helper()
	bubbleWithConfig(t, nil, func(c *worker.Config) chan string {
		processes := idlePrograms{started: make(chan string, 10), folder: "/handlers"}
		c.Programs = processes
		return processes.started
	}, func(f *fixture, started chan string) {
		first := echo
		first.Image, first.Min, first.Max = "team/worker", 1, 1
		f.pools.Set(first)
		test(f, <-started, started)
	})
}

// A worker whose SDK keeps jobs in its folder gets advice once another worker shares the folder.
func TestAdviceOnSharedFolder(t *testing.T) {
	for release, want := range map[string]bool{
		"1.3.7": false, "1.7.11": false, "1.7.12": true, "1.7.13": true, "1.8.0": true, "1.9.1": true, "1.10.0": false, "1.12.0": false, "2.0.0": false,
		"": false, "stand-in": false, "unknown": false, "1": false,
	} {
		t.Run(fmt.Sprintf("release %s", release), func(t *testing.T) {
			actAsWorker(t, func(f *fixture, firstID string, started chan string) {
				f.pools.Client(firstID).SetSDK(release)
				synctest.Wait()
				must.Hold(f.t, !strings.Contains(f.log.String(), "other workers share this folder"), "a worker alone in its folder gets advice", f.log)
				second := echo
				second.ID, second.Image, second.Min, second.Max = "other", "team/worker", 1, 1
				f.pools.Set(second)
				secondID := <-started
				for range 3 { // pings
					f.pools.Client(secondID).SetSDK(release)
				}
				must.Equal(f.t, strings.Count(f.log.String(), "other workers share this folder"), map[bool]int{true: 1}[want], "times that the advice is logged:", f.log)
				advice := f.pools.Workers("other")[0].Advice
				must.Equal(f.t, strings.Contains(advice, release+" of the public SDK"), want, "whether there is advice:", advice)
			})
		})
	}
}

type countingQueue struct {
	worker.Queue
	reads     atomic.Int64
	afterRead func()
}

func (q *countingQueue) Load(ctx context.Context, endpoint string) (engine.Load, error) {
	q.reads.Add(1)
	load, err := q.Queue.Load(ctx, endpoint)
	q.afterRead()
	return load, err
}

// If a pool has its maximum of workers, and none is starting or stopping, only idle time-outs evaluate the load. New settings apply at once.
func TestFullPoolIsNotEvaluatedForEachJob(t *testing.T) {
	bubbleWithConfig(t, nil, func(c *worker.Config) *countingQueue {
		q := &countingQueue{Queue: c.Queue, afterRead: func() {}}
		c.Queue = q
		return q
	}, func(f *fixture, queue *countingQueue) {
		settings := worker.Endpoint{ID: "ep", Version: 1, Max: 2, IdleTimeout: 10 * time.Second, ScalerValue: 1, ByRequests: true}
		settings.Image = "builtin/conformance"
		f.pools.Set(settings)
		sleep := func(ms string) engine.Job {
			return f.submit(engine.NewJob{Input: []byte(`{"op": "sleep", "ms": ` + ms + `}`)})
		}
		sleep("1000")
		sleep("1000")
		f.expectCounts(worker.Counts{Running: 2})
		time.Sleep(3 * time.Second)
		f.expectCounts(worker.Counts{Idle: 2})
		before := queue.reads.Load()
		const jobs = 50
		for range jobs {
			sleep("100")
			time.Sleep(100 * time.Millisecond)
		}
		n := queue.reads.Load() - before
		must.Hold(t, n < jobs, "the load was read", n, "times while", jobs, "jobs ran one after the other")
		time.Sleep(10*time.Second + time.Millisecond)
		f.expectCounts(worker.Counts{})
		sleep("36000000")
		sleep("36000000")
		f.expectCounts(worker.Counts{Running: 2})
		before = queue.reads.Load()
		time.Sleep(10 * time.Hour)
		n = queue.reads.Load() - before
		must.Hold(t, n <= 20, "the load was read", n, "times while two jobs ran for ten hours")
		time.Sleep(10*time.Second + time.Millisecond)
		f.expectCounts(worker.Counts{})
		sleep("1000")
		sleep("1000")
		f.expectCounts(worker.Counts{Running: 2})
		settings.Max = 1
		f.pools.Set(settings)
		time.Sleep(2 * time.Second)
		f.expectCounts(worker.Counts{Idle: 1})
		// A job that arrives while the load is read starts the worker that the pool may have now.
		sleep("5000")
		queue.afterRead = func() {
			queue.afterRead = func() {}
			must.Do(f.engine.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte(`{"op": "sleep", "ms": 5000}`)}))(t)
			f.pools.CheckLoad("ep")
		}
		settings.Max = 2
		f.pools.Set(settings)
		f.expectCounts(worker.Counts{Running: 2})
	})
}
