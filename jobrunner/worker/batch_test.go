package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// startBatch creates and finalizes a batch of n requests that take the given time each.
func (f *fixture) startBatch(n int, seconds float64) engine.Batch {
	f.t.Helper()
	var inputs [][]byte
	for range n {
		inputs = append(inputs, fmt.Appendf(nil, `{"seconds": %g}`, seconds))
	}
	b := must.Do(f.engine.CreateBatch(f.t.Context(), "ep", inputs))(f.t)
	must.Do(f.engine.FinalizeBatch(f.t.Context(), "ep", b.ID))(f.t)
	synctest.Wait() // the sweeper may still be queueing the requests
	f.pools.CheckLoad(engine.BatchQueue("ep"))
	synctest.Wait()
	return b
}

func (f *fixture) expectBatch(b engine.Batch, running, completed int) {
	f.t.Helper()
	synctest.Wait()
	got, err := f.engine.Batch(f.t.Context(), "ep", b.ID)
	must.Hold(f.t, err == nil && got.InProgress == running && got.Completed == completed && got.Failed == 0,
		"the batch is", got, err, "want", running, "running and", completed, "completed")
}

// A batch doesn't delay jobs, and the endpoint's health doesn't count the batch's workers.
func TestBatchHasItsOwnWorkers(t *testing.T) {
	fakes := newFakes(4)
	bubbleWithFakes(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 2))
		b := f.startBatch(5, 100)
		f.expectBatch(b, 2, 0)
		must.Equal(t, fakes.alive()[0].spec.Endpoint, "ep", "the endpoint of a batch worker")
		f.expectCounts(worker.Counts{})
		f.expectWorkers("RUNNING 1", "RUNNING 1")
		must.Equal(t, f.pools.EndpointIgnoringClock(), "ep", "the endpoint whose batch runs")
		job := f.submitSleep(1)
		time.Sleep(time.Second)
		f.expectCompleted(job, 1)
		must.Equal(t, f.reload(job).Delay, 0, "the delay of the job")
		f.expectCounts(worker.Counts{Idle: 1})
		f.expectWorkers("RUNNING 1", "RUNNING 1", "IDLE 1") // the oldest first
		f.pools.Set(newColoredEndpoint(2, 2))               // waiting requests run in the new version
		time.Sleep(400 * time.Second)
		f.expectBatch(b, 0, 5)
		requests, _, err := f.engine.Requests(t.Context(), "ep", b.ID, 4, 1, 100)
		got := string(requests[0].Output)
		must.Hold(t, err == nil && strings.HasSuffix(got, ` color-2"`), "the last output is", got, err)
		f.expectWorkers()
		f.startBatch(1, 100)
		f.expectWorkers("RUNNING 2")
		f.pools.Remove("ep")
		f.expectWorkers()
	})
}

// sleeper runs each job in the jobrunner, as a command per job does.
type sleeper struct{}

func (sleeper) Program(string) (run.Program, error) {
	return run.Program{Handle: func(ctx context.Context, job run.Job) ([]byte, error) {
		var input fakeInput
		_ = json.Unmarshal(job.Input, &input) // the test wrote it
		return []byte(`" in color-1"`), job.Clock.Sleep(ctx, time.Duration(input.Seconds*float64(time.Second)))
	}}, nil
}

// A batch worker gives its GPU to a job that needs it. The batch worker's request runs again later.
func TestBatchWorkerIsPreempted(t *testing.T) {
	for _, programs := range []run.Programs{nil, sleeper{}} {
		testPreemption(t, programs)
	}
}

// bubbleWithGPUs is bubbleWithConfig on a simulated machine. programs replaces the programs of fakes unless it is nil.
func bubbleWithGPUs(t *testing.T, machine string, fakes *fakes, programs run.Programs, test func(f *fixture, a *gpu.Allocator)) {
	t.Helper()
	bubbleWithConfig(t, fakes, func(c *worker.Config) *gpu.Allocator {
		c.Devices = gpu.NewAllocator(must.Do(gpu.Simulate(machine, slog.New(slog.DiscardHandler)))(t))
		if programs != nil {
			c.Programs = programs
		}
		return c.Devices
	}, func(f *fixture, a *gpu.Allocator) {
		defer a.Close()
		defer f.pools.Close()
		test(f, a)
	})
}

// testPreemption runs the workers with programs, or as fake processes if it is nil.
func testPreemption(t *testing.T, programs run.Programs) {
	bubbleWithGPUs(t, "l4x2", newFakes(1), programs, func(f *fixture, _ *gpu.Allocator) {
		e := newColoredEndpoint(1, 1)
		e.GPU = &store.GPU{TypeIDs: []string{"nvidia  l4"}, Count: 2} // another spelling of the machine's type
		f.pools.Set(e)
		b := f.startBatch(2, 100)
		f.expectBatch(b, 1, 0)
		for range 3 {
			job := f.submitSleep(5)
			time.Sleep(5 * time.Second)
			f.expectCompleted(job, 1)
			got := f.reload(job)
			must.Hold(t, got.Delay <= time.Second, "the job waited for", got.Delay)
			f.expectBatch(b, 0, 0)
			time.Sleep(11 * time.Second) // the job's worker passes its idle time-out
			f.expectBatch(b, 1, 0)
		}
		time.Sleep(time.Minute)
		f.expectBatch(b, 1, 0)
		time.Sleep(200 * time.Second)
		f.expectBatch(b, 0, 2)
		must.Hold(t, !strings.Contains(f.log.String(), "outcome=LOST"), "a preempted job is logged as lost:", f.log)
	})
}

// A batch worker keeps its GPU if an endpoint waits for more GPUs of a type than the machine has.
func TestBatchWorkerIsNotPreemptedInVain(t *testing.T) {
	fakes := &fakes{maxWorkers: 3, runs: map[string]int{}, exitDelay: time.Second}
	bubbleWithGPUs(t, "mixed", fakes, nil, func(f *fixture, a *gpu.Allocator) {
		e := newColoredEndpoint(1, 2)
		e.GPU = &store.GPU{TypeIDs: []string{"NVIDIA GeForce RTX 4090", "NVIDIA TITAN RTX"}, Count: 1} // the machine has one of each
		f.pools.Set(e)
		b := f.startBatch(2, 100)
		e.ID, e.Min, e.Max, e.GPU = "other", 2, 2, &store.GPU{TypeIDs: []string{"NVIDIA L40S", "NVIDIA GeForce RTX 4090"}, Count: 2}
		f.pools.Set(e)
		f.expectBatch(b, 2, 0)
		must.Equal(t, fakes.started(), 3, "the number of started workers: two for the batch, one with both L40S")
		// A pod that needs a GPU gets one. It costs one batch worker, however often the pod asks.
		pod := gpu.Request{Types: []string{"NVIDIA GeForce RTX 4090", "NVIDIA TITAN RTX"}, Pod: true}
		for range 2 {
			must.Hold(t, must.Err(a.Acquire(pod, "pod")) != nil, "the pod gets the GPU of a running worker")
		}
		time.Sleep(2 * time.Second)
		must.Hold(t, must.Do(a.Acquire(pod, "pod"))(t) != nil && fakes.started() == 3, "both batch workers were preempted for one GPU")
		// A batch worker is also preempted if it has just got its GPU, and hasn't noted that yet.
		h100s := gpu.Request{Types: []string{"NVIDIA H100 80GB HBM3"}, Count: 2}
		must.Do(a.Acquire(h100s, f.pools.Workers("ep")[1].ID))(t)
		must.Hold(t, must.Err(a.Acquire(h100s, "another pod")) != nil, "the pod gets a GPU in use")
		synctest.Wait()
		must.Do(a.Acquire(h100s, "another pod"))(t)
	})
}
