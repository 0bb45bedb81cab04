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

// newColoredEndpoint returns an endpoint of fakes. Its version is the color in the output of their jobs.
func newColoredEndpoint(version int64, most int) worker.Endpoint {
	return worker.Endpoint{
		ID: "ep", Container: store.Container{Image: "fake/x", Env: map[string]string{"COLOR": fmt.Sprint("color-", version)}},
		Version: version, Max: most, IdleTimeout: 10 * time.Second, ScalerValue: 4,
	}
}

func (f *fixture) work(seconds float64) engine.Job {
	f.t.Helper()
	return f.submit(engine.NewJob{Input: fmt.Appendf(nil, `{"seconds": %g}`, seconds)})
}

// completed checks that a job was done once, by a worker of the version.
func (f *fixture) completed(job engine.Job, version int64) {
	f.t.Helper()
	got := f.state(job)
	if got.State != engine.Completed || got.Retries != 0 || !strings.HasSuffix(string(got.Output), fmt.Sprintf(` in color-%d"`, version)) {
		f.t.Errorf("the job is %s with %s after %d retries, error %q; not done in version %d", got.State, got.Output, got.Retries, got.Error, version)
	}
}

// workers checks the state and version of an endpoint's workers; * marks a stale one.
func (f *fixture) workers(want ...string) {
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

// A worker is INITIALIZING until it requests a job. Waiting jobs don't start another worker before
// the scaler's delay.
func TestFirstJobStartsOneProcess(t *testing.T) {
	fakes := newFakes(3)
	fakes.boot = 3 * time.Second
	bubbleOf(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 3))
		first := f.work(20)
		f.counts(worker.Counts{Initializing: 1})
		pass(3 * time.Second)
		f.counts(worker.Counts{Running: 1})
		f.work(20)
		f.work(20)
		pass(3 * time.Second)
		f.counts(worker.Counts{Running: 1})
		pass(2 * time.Second) // the next job has waited for longer than the scaler's delay
		f.counts(worker.Counts{Running: 1, Initializing: 1})
		pass(4 * time.Second)
		f.counts(worker.Counts{Running: 2, Initializing: 1})
		pass(time.Minute)
		f.completed(first, 1)
		f.counts(worker.Counts{})
		must.Equal(t, len(fakes.alive()), 0, "processes are left")
	})
}

// A worker that requests no job gets a reason after 30 s, which goes away when it requests one.
func TestWorkerThatRequestsNoJob(t *testing.T) {
	fakes := newFakes(3)
	fakes.boot = time.Minute
	bubbleOf(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 1))
		f.work(1)
		const silent = "it has run for 30s and not asked for a job"
		pass(29 * time.Second)
		must.Equal(t, f.pools.Failure("ep"), "", "the reason comes too soon")
		pass(2 * time.Second)
		f.counts(worker.Counts{Initializing: 1})
		if why, of := f.pools.Failure("ep"), f.pools.Workers("ep")[0]; !strings.HasPrefix(why, silent) || of.Reason != why || of.State != worker.Initializing {
			t.Errorf("the endpoint says %q, the worker %+v", why, of)
		}
		must.Equal(t, strings.Count(f.log.String(), silent), 1, "the reason is logged", "times", f.log)
		pass(29*time.Second + time.Second/2)
		f.counts(worker.Counts{Running: 1})
		why, of := f.pools.Failure("ep"), f.pools.Workers("ep")[0]
		must.Hold(t, why == "" && of.Reason == "", "the worker works, but the endpoint says", why, "the worker", of)
	})
}

// A worker is idle as soon as it reports a result.
func TestResultFreesWorker(t *testing.T) {
	bubbleOf(t, newFakes(1), func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 1))
		job := f.work(0.2)
		f.counts(worker.Counts{Running: 1})
		pass(200 * time.Millisecond)
		f.completed(job, 1)
		f.counts(worker.Counts{Idle: 1})
	})
}

// A worker that doesn't stop a cancelled job is killed after the grace, and another one goes on.
func TestUnstoppableJobKillsWorker(t *testing.T) {
	fakes := newFakes(1)
	bubbleOf(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 1))
		deaf := f.submit(engine.NewJob{Input: []byte(`{"seconds": 600, "deaf": true}`)})
		next := f.work(1)
		must.Do(f.engine.Cancel(f.t.Context(), "ep", deaf.ID))(t)
		pass(4 * time.Second)
		f.counts(worker.Counts{Running: 1})
		must.Equal(t, fakes.started(), 1, "workers were started")
		pass(3 * time.Second)
		f.completed(next, 1)
		got := f.state(deaf)
		must.Hold(t, got.State == engine.Cancelled && fakes.started() == 2, "the job is", got.State, fakes.started(), "workers were started")
	})
}

// A lower maximum ends idle workers at once, and busy ones after their jobs.
func TestLowerMaximum(t *testing.T) {
	fakes := newFakes(4)
	bubbleOf(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 4)
		e.Min = 4
		f.pools.Set(e)
		f.workers("IDLE 1", "IDLE 1", "IDLE 1", "IDLE 1")
		jobs := []engine.Job{f.work(20), f.work(20), f.work(20)}
		f.counts(worker.Counts{Running: 3, Idle: 1})
		e.Min, e.Max = 0, 3
		f.pools.Set(e)
		f.counts(worker.Counts{Running: 3})
		e.Max = 1
		f.pools.Set(e)
		f.counts(worker.Counts{Running: 3})
		fakes.set(func() { fakes.max = 1 })
		late := f.work(1)
		pass(21 * time.Second)
		for _, job := range append(jobs, late) {
			f.completed(job, 1)
		}
		f.counts(worker.Counts{Idle: 1})
		e.Max = 0
		f.pools.Set(e)
		f.counts(worker.Counts{})
	})
}

// Workers that exit right after their start are restarted after a pause that doubles up to a minute.
// Meanwhile a failed worker shows why. A completed job resets the pause.
func TestCrashLoop(t *testing.T) {
	fakes := newFakes(2)
	fakes.broken = true
	bubbleOf(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 2)
		e.IdleTimeout = 2 * time.Minute
		f.pools.Set(e)
		job := f.work(1)
		pass(10 * time.Minute)
		synctest.Wait()
		for i, w := range fakes.all[1:] {
			must.Equal(t, w.begun.Sub(fakes.all[i].begun).Round(time.Second), min(time.Second<<i, time.Minute), "start", i+2, "comes after")
		}
		must.Equal(t, fakes.started(), 15, "workers were started")
		f.counts(worker.Counts{Unhealthy: 1})
		info := f.pools.Workers("ep")[0]
		want := "it ended right after its start, with exit status 3. The end of its log:\nstarts in color-1\nno module named color-1"
		must.Hold(t, info.Reason == want && info.State == worker.Unhealthy, info.State, info.Reason)
		if log, ok := f.pools.Log("ep", info.ID); !ok {
			t.Error("its log is gone")
		} else if lines, more := log.Lines(0); len(lines) != 3 || more != nil || !lines[2].System || lines[2].Text != "the process ended with exit status 3" {
			t.Errorf("its log is %v", lines)
		}
		must.Equal(t, strings.Count(f.log.String(), "no module named"), 1, "the reason is logged", "times", f.log)
		got := f.state(job)
		must.Hold(t, got.State == engine.InQueue && got.Retries == 0, "the job is", got)

		fakes.set(func() { fakes.broken = false })
		pass(time.Minute + 2*time.Second)
		f.completed(job, 1)
		f.counts(worker.Counts{Idle: 1})

		// The next failure counts as the first.
		fakes.set(func() { fakes.broken = true })
		pass(2 * time.Minute)
		f.counts(worker.Counts{})
		job = f.work(1)
		pass(100 * time.Millisecond)
		f.counts(worker.Counts{Unhealthy: 1})
		fakes.set(func() { fakes.broken = false })
		pass(2 * time.Second)
		f.completed(job, 1)
	})
}

// A failed worker that takes long to exit isn't replaced before the pause ends.
func TestCrashLoopWithSlowExits(t *testing.T) {
	fakes := newFakes(3)
	fakes.boot, fakes.dying = time.Second, 3*time.Second
	bubbleOf(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 3)
		e.Min = 2
		f.pools.Set(e)
		pass(time.Second)
		f.counts(worker.Counts{Idle: 2})
		one := fakes.alive()[0]
		one.client.Unhealthy("no model")
		pass(time.Second)
		f.counts(worker.Counts{Idle: 1, Unhealthy: 1})
		pass(2500 * time.Millisecond) // its exit takes 3 s, and the pause 1 s
		f.counts(worker.Counts{Idle: 1, Unhealthy: 1})
		for _, info := range f.pools.Workers("ep") {
			must.Hold(t, info.ID != one.spec.ID || info.Reason == "no model", info.Reason)
		}
		must.Equal(t, fakes.started(), 2, "workers were started")
		pass(2 * time.Second)
		f.counts(worker.Counts{Idle: 2})
	})
}

// A new version starts at once, even during the pause after failures of the old one.
func TestNewVersionEndsPause(t *testing.T) {
	fakes := newFakes(2)
	fakes.broken = true
	bubbleOf(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 2))
		job := f.work(1)
		pass(20 * time.Second)
		f.workers("UNHEALTHY 1")
		fakes.set(func() { fakes.broken = false })
		f.pools.Set(newColoredEndpoint(2, 2))
		f.workers("RUNNING 2")
		pass(time.Second)
		f.completed(job, 2)
		f.workers("IDLE 2")
	})
}

// An idle worker of an older version is replaced at once if the minimum requires it, and a busy worker
// after its job.
func TestRollingUpdate(t *testing.T) {
	fakes := newFakes(3)
	fakes.boot = 3 * time.Second
	bubbleOf(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 3)
		e.Min = 2
		f.pools.Set(e)
		pass(3 * time.Second)
		old := f.work(20)
		f.counts(worker.Counts{Running: 1, Idle: 1})
		e = newColoredEndpoint(2, 3)
		e.Min = 2
		f.pools.Set(e)
		f.workers("RUNNING 1*", "INITIALIZING 2")
		pass(3 * time.Second)
		f.counts(worker.Counts{Running: 1, Idle: 1, Initializing: 1}) // the busy worker drains, and its replacement starts
		fresh := f.work(5)
		pass(5 * time.Second)
		f.completed(fresh, 2)
		f.workers("RUNNING 1*", "IDLE 2", "IDLE 2")
		pass(12 * time.Second)
		f.completed(old, 1)
		f.workers("IDLE 2", "IDLE 2")
	})
}

// At the maximum a worker leaves before its replacement starts. Jobs wait; none is lost.
func TestRollingUpdateAtMaximum(t *testing.T) {
	fakes := newFakes(2)
	fakes.boot = time.Second
	bubbleOf(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 2))
		var old, fresh []engine.Job
		old = append(old, f.work(30))
		pass(time.Second)
		old = append(old, f.work(40)) // begins 5 s later, because it waits for a second worker
		pass(6 * time.Second)
		f.workers("RUNNING 1", "RUNNING 1")
		f.pools.Set(newColoredEndpoint(2, 2))
		for range 5 {
			fresh = append(fresh, f.work(3))
		}
		f.workers("RUNNING 1*", "RUNNING 1*")
		pass(24 * time.Second) // the older worker has done its job
		f.counts(worker.Counts{Running: 1, Initializing: 1})
		f.completed(old[0], 1)
		pass(10 * time.Second)
		f.workers("RUNNING 1*", "RUNNING 2")
		pass(time.Minute)
		f.completed(old[1], 1)
		for _, job := range fresh {
			f.completed(job, 2)
		}
		f.counts(worker.Counts{})
	})
}

// Drained workers finish their jobs and take no more.
func TestDrain(t *testing.T) {
	fakes := newFakes(2)
	bubbleOf(t, fakes, func(f *fixture) {
		e := newColoredEndpoint(1, 2)
		e.Min = 2
		f.pools.Set(e)
		job := f.work(20)
		drained := make(chan time.Duration)
		began := time.Now()
		for _, patience := range []time.Duration{5 * time.Second, time.Hour} {
			go func() {
				ctx, cancel := context.WithTimeout(f.t.Context(), patience)
				defer cancel()
				f.pools.Drain(ctx)
				drained <- time.Since(began)
			}()
		}
		f.counts(worker.Counts{Running: 1}) // the idle worker is gone at once
		late := f.work(1)
		f.pools.Set(e)
		first, second := <-drained, <-drained
		must.Hold(t, first == 5*time.Second && second == 20*time.Second, "drained after", first, second)
		f.completed(job, 1)
		other := e
		other.ID = "other"
		f.pools.Set(other)
		pass(time.Hour)
		f.counts(worker.Counts{})
		if got := f.state(late); got.State != engine.InQueue || fakes.started() != 2 {
			t.Errorf("a job queued after the drain is %s, and %d workers were started", got.State, fakes.started())
		}
	})
}

// A worker that dies, with or without a job, is replaced if a job waits, and its job runs again.
func TestCrashedWorkerIsReplaced(t *testing.T) {
	fakes := newFakes(1)
	bubbleOf(t, fakes, func(f *fixture) {
		f.pools.Set(newColoredEndpoint(1, 1))
		job := f.work(10)
		fakes.alive()[0].end(errors.New("out of memory"))
		f.workers("RUNNING 1")
		pass(10 * time.Second)
		got := f.state(job)
		must.Hold(t, got.State == engine.Completed && got.Retries == 1, "the job is", got)
		fakes.alive()[0].end(errors.New("out of memory"))
		synctest.Wait()
		f.counts(worker.Counts{}) // no job needs another worker
		f.work(1)
		must.Hold(t, fakes.started() == 3, fakes.started(), "workers were started")
	})
}
