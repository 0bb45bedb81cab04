package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// noteStart records that the worker runs, and starts its billing.
func (w *worker) noteStart(process run.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process, w.started = process, w.pool.clock.Now()
	if m := w.pool.config.Meter; m != nil {
		m.Begin(w.id, w.settings, w.placement)
	}
}

// meterEnd ends the billing of the worker.
func (w *worker) meterEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.pool.config.Meter; m != nil && !w.started.IsZero() {
		m.End(w.id)
	}
}

// noteReady records that the worker requested a job.
func (w *worker) noteReady() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apply(jobRequested)
}

// serve runs a process that takes its jobs over the worker protocol, until it exits or is killed, and
// returns why it couldn't work.
func (w *worker) serve(ctx context.Context, start func(context.Context, run.Spec) (run.Process, error), spec *run.Spec) (failure string) {
	process, err := start(w.taking, *spec)
	if err != nil {
		if !w.takesJobs() { // its start was cancelled
			return ""
		}
		return "it could not be started: " + err.Error()
	}
	w.noteStart(process)
	if w.settings.Balanced {
		address := addressOf(process, spec.Port)
		w.watching.Go(func() { w.probe(w.life, address) })
	} else {
		w.watching.Go(func() { w.watchStart(w.life) })
	}
	ended := w.wait(ctx, process)
	w.drain()
	w.takers.Wait() // then w.jobs has the jobs of concurrent calls of Take
	if ended {
		w.noteExit(process.Exit())
	}
	w.mu.Lock()
	w.apply(shutdown) // before its jobs leave: without them it would look idle
	w.mu.Unlock()
	if ended {
		w.requeueJobs(ctx)
	}
	process.Stop(0) // also its children, even if it has exited
	w.requeueJobs(ctx)
	w.end()
	w.watching.Wait()
	return w.failure()
}

// startPatience is how long a worker may run without requesting a job before that is logged. The SDK
// requests jobs once its handler's module is loaded.
const startPatience = 30 * time.Second

// watchStart logs that a worker has requested no job within startPatience.
func (w *worker) watchStart(ctx context.Context) {
	if w.pool.clock.Sleep(ctx, startPatience) == nil {
		w.noteUnready(fmt.Sprintf("it has run for %s and not asked for a job: it still loads, or its program never asks (serverless.start); its log may say more", startPatience))
	}
}

// noteUnready records and logs why a worker that starts doesn't work yet.
func (w *worker) noteUnready(reason string) {
	w.mu.Lock()
	starts := w.state == Initializing
	if starts {
		w.reason = reason
	}
	w.mu.Unlock()
	if !starts {
		return
	}
	w.log.Note(reason)
	w.pool.logger.Warn("a worker is not ready", "endpoint", w.pool.id, "worker", w.id, "reason", reason)
}

// wait waits until the process exits or must be killed, and returns whether it exited.
func (w *worker) wait(ctx context.Context, process run.Process) (ended bool) {
	done := process.Done()
	select {
	case <-done:
		return true
	case <-w.killed:
		return false
	case <-w.taking.Done():
	}
	w.takers.Wait()
	var late <-chan time.Time
	if w.settings.Balanced { // a request has no other time-out
		timer := w.pool.clock.NewTimer(maxDrain)
		defer timer.Stop()
		late = timer.C
	}
	for {
		w.mu.Lock()
		empty, changed := len(w.jobs) == 0, w.changed
		w.mu.Unlock()
		if empty {
			return false
		}
		select {
		case <-changed:
		case <-done:
			return true
		case <-w.killed:
			return false
		case <-late:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// requeueJobs returns the worker's jobs to the queue after it has ended. If the deployment stops,
// the jobs stay with the worker, and the deployment's next start queues them again.
func (w *worker) requeueJobs(ctx context.Context) {
	w.mu.Lock()
	jobs := slices.Collect(maps.Values(w.jobs))
	w.mu.Unlock()
	for _, h := range jobs {
		if ctx.Err() == nil && !w.settings.Balanced {
			if err := w.requeue(ctx, h.ref); err != nil && ctx.Err() == nil {
				w.pool.logger.Error("a job of a worker that ended could not be queued again; its time-out ends it",
					"endpoint", w.pool.id, "job", h.ref.ID, "error", err)
			}
		}
		outcome := engine.Lost().Outcome()
		w.mu.Lock()
		if h.revoked {
			outcome = outcomeStopped
		}
		w.mu.Unlock()
		w.logJobEnd(ctx, h, outcome)
		w.drop(h)
	}
}

// killUnresponsive kills a worker that was told to stop a job and didn't.
func (w *worker) killUnresponsive(job string) {
	w.pool.logger.Warn("a worker is killed: it did not stop a job within "+stopGrace.String(), "endpoint", w.pool.id, "worker", w.id, "job", job)
	w.noteKill(fmt.Sprintf("it did not stop a job within %s (%s)", stopGrace, job))
	w.kill()
}
