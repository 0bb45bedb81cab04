package worker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

func (w *worker) noteStart(process run.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process, w.started = process, w.pool.clock.Now()
	if m := w.pool.config.Meter; m != nil {
		m.Begin(w.id, w.settings, w.placement)
	}
}

func (w *worker) meterEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.pool.config.Meter; m != nil && !w.started.IsZero() {
		m.End(w.id)
	}
}

// serve starts the worker's process and waits until it has ended. It returns why the worker couldn't work, or "".
func (w *worker) serve(ctx context.Context, start func(context.Context, run.Spec) (run.Process, error), spec *run.Spec) (failure string) {
	process, err := start(w.takingCtx, *spec)
	if err != nil {
		if !w.takesJobs() { // its start was cancelled
			return ""
		}
		return "it could not be started: " + err.Error()
	}
	w.noteStart(process)
	if w.settings.Balanced {
		address := net.JoinHostPort(cmp.Or(process.Address(), run.PublishIP), strconv.Itoa(spec.Port))
		w.watchers.Go(func() { w.probe(w.life, address) })
	} else {
		w.watchers.Go(func() { w.watchStart(w.life) })
	}
	exited := w.wait(ctx, process)
	w.drain()
	w.takers.Wait() // then w.jobs has the jobs of concurrent calls of Take
	if exited {
		w.awaitPosts(ctx)
		w.noteExit(process.Exit())
	}
	w.mu.Lock()
	w.apply(shutdown) // before its jobs leave: without them it would look idle
	w.mu.Unlock()
	if exited {
		w.requeueJobs(ctx)
	}
	process.Stop(0) // also its children, even if it has exited
	w.requeueJobs(ctx)
	w.end()
	w.watchers.Wait()
	return w.failure()
}

// awaitPosts waits until the POSTs of a process that has exited end, because they may have results. If a child of the
// process holds a connection open, it waits a few seconds.
func (w *worker) awaitPosts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	w.await(ctx, func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(w.jobs)), func(h *heldJob) bool { return h.posts > 0 })
	})
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
	isStarting := w.state == Initializing
	if isStarting {
		w.reason = reason
	}
	w.mu.Unlock()
	if !isStarting {
		return
	}
	w.log.Note(reason)
	w.pool.logger.Warn("a worker is not ready", "endpoint", w.pool.id, "worker", w.id, "reason", reason)
}

// wait waits until the process exits or must be killed, and returns whether it exited.
func (w *worker) wait(ctx context.Context, process run.Process) (exited bool) {
	done := process.Done()
	select {
	case <-done:
		return true
	case <-w.killed.Done():
		return false
	case <-w.takingCtx.Done():
	}
	w.takers.Wait()
	var timeout <-chan time.Time
	if w.settings.Balanced { // a request has no other time-out
		timer := w.pool.clock.NewTimer(maxDrain)
		defer timer.Stop()
		timeout = timer.C
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
		case <-w.killed.Done():
			return false
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// requeueJobs returns the worker's jobs to the queue after it has ended. If the deployment stops,
// or this process no longer leads the endpoint, it leaves that to the engine.
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
		outcome := engine.Lost("").Outcome()
		w.mu.Lock()
		if h.revoked || w.preempted {
			outcome = outcomeStopped
		}
		w.mu.Unlock()
		w.logJobEnd(ctx, h, outcome)
		w.drop(h)
	}
}

// noteExit records the exit of a process that wasn't killed by the jobrunner: in the worker's log and
// reason, which become part of its jobs' errors, and in the jobrunner's log.
func (w *worker) noteExit(exit run.Exit) {
	w.mu.Lock()
	jobs := slices.Sorted(maps.Keys(w.jobs))
	wasReady, wasUnhealthy := w.state != Initializing, w.state == Unhealthy
	w.preempted = w.preempted || exit.Restart
	isIntended := !w.takesJobs() && len(jobs) == 0 && exit.OK
	if w.death == "" && !isIntended {
		w.death = exit.Text
	}
	startFailed := !w.hadJob && !wasUnhealthy && (!wasReady || w.pool.clock.Now().Sub(w.started) <= startWindow)
	switch {
	case startFailed && wasReady:
		w.apply(workerFailed)
		w.reason, w.crashed = "it ended right after its start, with "+exit.Text, true
	case startFailed:
		w.apply(workerFailed)
		w.reason, w.crashed = w.startFailure(exit), !exit.OK // a successful exit leaves no cause in the log
	case !wasUnhealthy:
		w.reason = "its process ended with " + exit.Text + describeJobs(jobs)
	}
	w.mu.Unlock()
	w.log.Note("the process ended with " + exit.Text + describeJobs(jobs))
	if !startFailed && !isIntended && !wasUnhealthy { // recordEnd logs failed starts
		w.pool.logger.Warn("a worker died", "endpoint", w.pool.id, "worker", w.id, "exit", exit.Text, "jobs", jobs)
	}
}

// startFailure returns why a worker that exited did not start. The caller holds the worker's lock.
func (w *worker) startFailure(exit run.Exit) string {
	switch {
	case exit.OK && w.settings.Balanced:
		return "it ended right after its start, with " + exit.Text + ": a worker behind a load balancer has to serve HTTP at its PORT until it is stopped"
	case exit.OK:
		return "it ended with " + exit.Text + " and never asked for a job: does its program call serverless.start({\"handler\": …})? A program that reads a job's input from stdin needs command instead of process"
	case w.pool.clock.Now().Sub(w.started) > startWindow:
		return "it ended before it was ready, with " + exit.Text
	}
	return "it ended right after its start, with " + exit.Text
}

func describeJobs(jobs []string) string {
	switch len(jobs) {
	case 0:
		return ""
	case 1:
		return ", while it ran the job " + jobs[0]
	}
	return fmt.Sprintf(", while it ran %d jobs: %s", len(jobs), strings.Join(jobs, ", "))
}

// killedPrefix begins worker.death if the jobrunner killed the worker.
const killedPrefix = "SIGKILL from the jobrunner: "

func (w *worker) noteKill(reason string) {
	w.mu.Lock()
	w.death = cmp.Or(w.death, killedPrefix+reason)
	w.mu.Unlock()
	w.log.Note("the worker is killed: " + reason)
}

// lossReason returns why the worker's jobs are lost, or "" if it is neither killed nor dead.
func (w *worker) lossReason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.death == "" {
		return ""
	}
	reason := "its worker died: " + w.death
	// If the process exited by itself, its last line is often the cause.
	if tail := w.log.Tail(maxLastLine); tail != "" && !strings.HasPrefix(w.death, killedPrefix) {
		reason += "; the last line of its log: " + tail[strings.LastIndexByte(tail, '\n')+1:]
	}
	return reason
}

// maxLastLine limits the log line in a job's error, in bytes.
const maxLastLine = 300

// failure returns why the worker couldn't work, with the end of its log, or "".
func (w *worker) failure() string {
	w.log.Finish()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != Unhealthy {
		return ""
	}
	const end = ". The end of its log:\n"
	reason := w.reason
	if tail := w.log.Tail(max(0, maxReason-len(reason)-len(end))); tail != "" && w.crashed {
		return strings.TrimSuffix(reason, ".") + end + tail
	}
	return reason
}
