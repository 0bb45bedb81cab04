package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// newColoredEndpoint returns an endpoint whose fake workers put its version, as a color, into their outputs.
func newColoredEndpoint(version int64, maxWorkers int) worker.Endpoint {
	return worker.Endpoint{
		ID: "ep", Container: store.Container{Image: "fake/x", Env: map[string]string{"COLOR": fmt.Sprint("color-", version)}},
		Version: version, Max: maxWorkers, IdleTimeout: 10 * time.Second, ScalerValue: 4,
	}
}

func (f *fixture) submitSleep(seconds float64) engine.Job {
	f.t.Helper()
	return f.submit(engine.NewJob{Input: fmt.Appendf(nil, `{"seconds": %g}`, seconds)})
}

// expectCompleted checks that a worker of the version completed a job in its first run.
func (f *fixture) expectCompleted(job engine.Job, version int64) {
	f.t.Helper()
	got := f.reload(job)
	if got.State != engine.Completed || got.Retries != 0 || !strings.HasSuffix(string(got.Output), fmt.Sprintf(` in color-%d"`, version)) {
		f.t.Errorf("the job is %s with %s after %d retries, error %q; not done in version %d", got.State, got.Output, got.Retries, got.Error, version)
	}
}

// expectWorkers checks the state and version of an endpoint's workers; * marks a stale worker.
func (f *fixture) expectWorkers(want ...string) {
	f.t.Helper()
	synctest.Wait()
	var got []string
	for _, w := range f.pools.Workers("ep") {
		text := fmt.Sprint(w.State, " ", w.Version)
		if w.Stale {
			text += "*"
		}
		got = append(got, text)
	}
	must.Equal(f.t, fmt.Sprint(got), fmt.Sprint(want), "the workers are", got, want)
}

// The first job starts a worker, INITIALIZING until it requests a job. Further workers start after the scaler's delay.
func TestWaitingJobsStartWorkersAfterDelay(t *testing.T) {
	fakes := newFakes(3)
	fakes.boot = 3 * time.Second
	bubbleWithFakes(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 3))
		first := f.submitSleep(20)
		f.expectCounts(worker.Counts{Initializing: 1})
		time.Sleep(3 * time.Second)
		f.expectCounts(worker.Counts{Running: 1})
		f.submitSleep(20)
		f.submitSleep(20)
		time.Sleep(3 * time.Second)
		f.expectCounts(worker.Counts{Running: 1})
		time.Sleep(2 * time.Second) // the next job has waited for longer than the scaler's delay
		f.expectCounts(worker.Counts{Running: 1, Initializing: 1})
		time.Sleep(4 * time.Second)
		f.expectCounts(worker.Counts{Running: 2, Initializing: 1})
		time.Sleep(time.Minute)
		f.expectCompleted(first, 1)
		f.expectCounts(worker.Counts{})
		must.Equal(t, len(fakes.alive()), 0, "the number of processes that are left")
	})
}

// If a worker requests no job for 30 s, its reason says so until it requests one.
func TestWorkerThatRequestsNoJob(t *testing.T) {
	fakes := newFakes(3)
	fakes.boot = time.Minute
	bubbleWithFakes(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 1))
		f.submitSleep(1)
		const missingRequest = "it has run for 30s and not asked for a job"
		time.Sleep(29 * time.Second)
		must.Equal(t, f.pools.Failure("ep"), "", "the reason before the time is over")
		time.Sleep(2 * time.Second)
		f.expectCounts(worker.Counts{Initializing: 1})
		reason, info := f.pools.Failure("ep"), f.pools.Workers("ep")[0]
		must.Hold(t, strings.HasPrefix(reason, missingRequest) && info.Reason == reason && info.State == worker.Initializing, "the endpoint says", reason, "the worker", info)
		must.Equal(t, strings.Count(f.log.String(), missingRequest), 1, "log lines with the reason:", f.log)
		time.Sleep(29*time.Second + time.Second/2)
		f.expectCounts(worker.Counts{Running: 1})
		reason, info = f.pools.Failure("ep"), f.pools.Workers("ep")[0]
		must.Hold(t, reason == "" && info.Reason == "", "the worker works, but the endpoint says", reason, "the worker", info)
	})
}

// A worker that doesn't stop a cancelled job is killed after the grace period, and another worker runs the next job.
func TestUnstoppableJobKillsWorker(t *testing.T) {
	fakes := newFakes(1)
	bubbleWithFakes(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 1))
		unstoppable := f.submit(engine.NewJob{Input: []byte(`{"seconds": 600, "deaf": true}`)})
		next := f.submitSleep(1)
		must.Do(f.engine.Cancel(f.t.Context(), "ep", unstoppable.ID))(t)
		time.Sleep(4 * time.Second)
		f.expectCounts(worker.Counts{Running: 1})
		must.Equal(t, fakes.started(), 1, "the number of started workers")
		time.Sleep(3 * time.Second)
		f.expectCompleted(next, 1)
		got := f.reload(unstoppable)
		must.Hold(t, got.State == engine.Cancelled && fakes.started() == 2, "the job is", got.State, "and", fakes.started(), "workers were started")
	})
}

// A lower maximum ends idle workers at once, and busy workers after their jobs.
func TestLowerMaximum(t *testing.T) {
	fakes := newFakes(4)
	bubbleWithFakes(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 4)
		e.Min = 4
		f.pools.Set(e)
		f.expectWorkers("IDLE 1", "IDLE 1", "IDLE 1", "IDLE 1")
		jobs := []engine.Job{f.submitSleep(20), f.submitSleep(20), f.submitSleep(20)}
		f.expectCounts(worker.Counts{Running: 3, Idle: 1})
		e.Min, e.Max = 0, 3
		f.pools.Set(e)
		f.expectCounts(worker.Counts{Running: 3})
		e.Max = 1
		f.pools.Set(e)
		f.expectCounts(worker.Counts{Running: 3})
		fakes.update(func() { fakes.maxWorkers = 1 })
		late := f.submitSleep(1)
		time.Sleep(21 * time.Second)
		for _, job := range append(jobs, late) {
			f.expectCompleted(job, 1)
		}
		f.expectCounts(worker.Counts{Idle: 1})
		e.Max = 0
		f.pools.Set(e)
		f.expectCounts(worker.Counts{})
	})
}

// Workers that exit right after their start are restarted after a pause that doubles up to a minute.
// Meanwhile a failed worker shows why. A completed job resets the pause.
func TestCrashLoop(t *testing.T) {
	fakes := newFakes(2)
	fakes.broken = true
	bubbleWithFakes(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 2)
		e.IdleTimeout = 2 * time.Minute
		f.pools.Set(e)
		job := f.submitSleep(1)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for i, w := range fakes.all[1:] {
			must.Equal(t, w.startedAt.Sub(fakes.all[i].startedAt).Round(time.Second), min(time.Second<<i, time.Minute), "the pause before start", i+2)
		}
		must.Equal(t, fakes.started(), 15, "the number of started workers")
		f.expectCounts(worker.Counts{Unhealthy: 1})
		info := f.pools.Workers("ep")[0]
		want := "it ended right after its start, with exit status 3. The end of its log:\nstarts in color-1\nno module named color-1"
		must.Hold(t, info.Reason == want && info.State == worker.Unhealthy, "the worker is", info.State, "with the reason", info.Reason)
		if log, ok := f.pools.Log("ep", info.ID); !ok {
			t.Error("its log is gone")
		} else if lines, more := log.Lines(0); len(lines) != 3 || more != nil || !lines[2].System || lines[2].Text != "the process ended with exit status 3" {
			t.Errorf("its log is %v", lines)
		}
		must.Equal(t, strings.Count(f.log.String(), "no module named"), 1, "log lines with the reason:", f.log)
		got := f.reload(job)
		must.Hold(t, got.State == engine.InQueue && got.Retries == 0, "the job is", got)

		fakes.update(func() { fakes.broken = false })
		time.Sleep(time.Minute + 2*time.Second)
		f.expectCompleted(job, 1)
		f.expectCounts(worker.Counts{Idle: 1})

		// The next failure counts as the first.
		fakes.update(func() { fakes.broken = true })
		time.Sleep(2 * time.Minute)
		f.expectCounts(worker.Counts{})
		job = f.submitSleep(1)
		time.Sleep(100 * time.Millisecond)
		f.expectCounts(worker.Counts{Unhealthy: 1})
		fakes.update(func() { fakes.broken = false })
		time.Sleep(2 * time.Second)
		f.expectCompleted(job, 1)
	})
}

// The pause before a failed worker is replaced begins when the worker has exited.
func TestCrashLoopWithSlowExits(t *testing.T) {
	fakes := newFakes(3)
	fakes.boot, fakes.exitDelay = time.Second, 3*time.Second
	bubbleWithFakes(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 3)
		e.Min, e.Volumes = 2, []string{"v"}
		f.pools.Set(e)
		time.Sleep(time.Second)
		f.expectCounts(worker.Counts{Idle: 2})
		failed := fakes.alive()[0]
		failed.client.ReportUnhealthy("no model")
		time.Sleep(time.Second)
		f.expectCounts(worker.Counts{Idle: 1, Unhealthy: 1})
		time.Sleep(2500 * time.Millisecond) // 3.5 s after the failure: the exit took 3 s, and the pause is 1 s
		f.expectCounts(worker.Counts{Idle: 1, Unhealthy: 1})
		for _, info := range f.pools.Workers("ep") {
			must.Hold(t, info.ID != failed.spec.ID || info.Reason == "no model", "the reason of the failed worker is", info.Reason)
		}
		must.Equal(t, fakes.started(), 2, "the number of started workers")
		time.Sleep(2 * time.Second)
		f.expectCounts(worker.Counts{Idle: 2})
		go f.pools.Remove("ep")
		synctest.Wait()
		must.Hold(t, f.pools.MountsVolume("v"), "a worker that is exiting doesn't mount its volume")
		time.Sleep(4 * time.Second)
		must.Hold(t, !f.pools.MountsVolume("v"), "a worker that has exited mounts a volume")
	})
}

// A new version starts at once, even during the pause after failures of the old version.
func TestNewVersionEndsPause(t *testing.T) {
	fakes := newFakes(2)
	fakes.broken = true
	bubbleWithFakes(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 2))
		job := f.submitSleep(1)
		time.Sleep(20 * time.Second)
		f.expectWorkers("UNHEALTHY 1")
		fakes.update(func() { fakes.broken = false })
		f.pools.Set(newColoredEndpoint(2, 2))
		f.expectWorkers("RUNNING 2")
		time.Sleep(time.Second)
		f.expectCompleted(job, 2)
		f.expectWorkers("IDLE 2")
	})
}

// The minimum replaces an idle worker of an older version at once. A busy one ends after its job.
func TestRollingUpdate(t *testing.T) {
	fakes := newFakes(3)
	fakes.boot = 3 * time.Second
	bubbleWithFakes(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 3)
		e.Min = 2
		f.pools.Set(e)
		time.Sleep(3 * time.Second)
		oldJob := f.submitSleep(20)
		f.expectCounts(worker.Counts{Running: 1, Idle: 1})
		e = newColoredEndpoint(2, 3)
		e.Min = 2
		f.pools.Set(e)
		f.expectWorkers("RUNNING 1*", "INITIALIZING 2")
		time.Sleep(3 * time.Second)
		f.expectCounts(worker.Counts{Running: 1, Idle: 1, Initializing: 1}) // the busy worker drains, and its replacement starts
		newJob := f.submitSleep(5)
		time.Sleep(5 * time.Second)
		f.expectCompleted(newJob, 2)
		f.expectWorkers("RUNNING 1*", "IDLE 2", "IDLE 2")
		time.Sleep(12 * time.Second)
		f.expectCompleted(oldJob, 1)
		f.expectWorkers("IDLE 2", "IDLE 2")
	})
}

// At the maximum a worker leaves before its replacement starts. Jobs wait; none is lost.
func TestRollingUpdateAtMaximum(t *testing.T) {
	fakes := newFakes(2)
	fakes.boot = time.Second
	bubbleWithFakes(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 2))
		var oldJobs, newJobs []engine.Job
		oldJobs = append(oldJobs, f.submitSleep(30))
		time.Sleep(time.Second)
		oldJobs = append(oldJobs, f.submitSleep(40)) // begins 5 s later, because it waits for a second worker
		time.Sleep(6 * time.Second)
		f.expectWorkers("RUNNING 1", "RUNNING 1")
		f.pools.Set(newColoredEndpoint(2, 2))
		for range 5 {
			newJobs = append(newJobs, f.submitSleep(3))
		}
		f.expectWorkers("RUNNING 1*", "RUNNING 1*")
		time.Sleep(24 * time.Second) // the older worker has done its job
		f.expectCounts(worker.Counts{Running: 1, Initializing: 1})
		f.expectCompleted(oldJobs[0], 1)
		time.Sleep(10 * time.Second)
		f.expectWorkers("RUNNING 1*", "RUNNING 2")
		time.Sleep(time.Minute)
		f.expectCompleted(oldJobs[1], 1)
		for _, job := range newJobs {
			f.expectCompleted(job, 2)
		}
		f.expectCounts(worker.Counts{})
	})
}

// Drained workers finish their jobs and take no more.
func TestDrain(t *testing.T) {
	fakes := newFakes(2)
	bubbleWithFakes(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 2)
		e.Min = 2
		f.pools.Set(e)
		job := f.submitSleep(20)
		drained := make(chan time.Duration)
		start := time.Now()
		for _, patience := range []time.Duration{5 * time.Second, time.Hour} {
			go func() {
				ctx, cancel := context.WithTimeout(f.t.Context(), patience)
				defer cancel()
				f.pools.Drain(ctx)
				drained <- time.Since(start)
			}()
		}
		f.expectCounts(worker.Counts{Running: 1}) // the idle worker is gone at once
		late := f.submitSleep(1)
		f.pools.Set(e)
		first, second := <-drained, <-drained
		must.Hold(t, first == 5*time.Second && second == 20*time.Second, "drained after", first, second)
		f.expectCompleted(job, 1)
		other := e
		other.ID = "other"
		f.pools.Set(other)
		time.Sleep(time.Hour)
		f.expectCounts(worker.Counts{})
		got := f.reload(late)
		must.Hold(t, got.State == engine.InQueue && fakes.started() == 2, "a job queued after the drain is", got.State, "and", fakes.started(), "workers were started")
	})
}

// A dead worker's job runs again on a new worker. A dead idle worker isn't replaced until a job waits.
func TestCrashedWorkerIsReplaced(t *testing.T) {
	fakes := newFakes(1)
	bubbleWithFakes(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 1))
		job := f.submitSleep(10)
		fakes.alive()[0].end(errors.New("out of memory"))
		f.expectWorkers("RUNNING 1")
		fakes.alive()[0].end(errEngineRestart) // counts no retry
		f.expectWorkers("RUNNING 1")
		time.Sleep(10 * time.Second)
		got := f.reload(job)
		must.Hold(t, got.State == engine.Completed && got.Retries == 1, "the job is", got)
		fakes.alive()[0].end(errors.New("out of memory"))
		f.expectCounts(worker.Counts{}) // no job needs another worker
		f.submitSleep(1)
		must.Hold(t, fakes.started() == 4, fakes.started(), "workers were started, want 4")
	})
}
