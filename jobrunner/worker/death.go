package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// noteExit records the exit of a process that wasn't killed by the jobrunner: in the worker's log and
// reason, which become part of its jobs' errors, and in the jobrunner's log.
func (w *worker) noteExit(end run.Exit) {
	exit := end.Text
	w.mu.Lock()
	jobs := slices.Sorted(maps.Keys(w.jobs))
	requested, unfit := w.state != Initializing, w.state == Unhealthy
	leaves := !w.takesJobs() && len(jobs) == 0 && end.OK // as intended
	if w.death == "" {
		w.death = exit
	}
	starts := !w.hadJob && w.state != Unhealthy && (!requested || w.pool.clock.Now().Sub(w.started) <= startWindow)
	switch {
	case starts && requested:
		w.apply(workerFailed)
		w.reason, w.crashed = "it ended right after its start, with "+exit, true
	case starts:
		w.apply(workerFailed)
		w.reason, w.crashed = w.startFailure(end), !end.OK // a successful exit leaves no cause in the log
	case w.state != Unhealthy:
		w.reason = "its process ended with " + exit + describeJobs(jobs)
	}
	w.mu.Unlock()
	w.log.Note("the process ended with " + exit + describeJobs(jobs))
	if !starts && !leaves && !unfit { // recordEnd logs failed starts
		w.pool.logger.Warn("a worker died", "endpoint", w.pool.id, "worker", w.id, "exit", exit, "jobs", jobs)
	}
}

// startFailure returns why a worker whose process has exited did not start. The caller holds the
// worker's lock.
func (w *worker) startFailure(end run.Exit) string {
	exit := end.Text
	switch {
	case end.OK && w.settings.Balanced:
		return "it ended right after its start, with " + exit + ": a worker behind a load balancer has to serve HTTP at its PORT until it is stopped"
	case end.OK:
		return "it ended with " + exit + " and never asked for a job: does its program call serverless.start({\"handler\": …})? One that reads a job's input from stdin is run by command, not by process"
	case w.pool.clock.Now().Sub(w.started) > startWindow:
		return "it ended before it was ready, with " + exit
	}
	return "it ended right after its start, with " + exit
}

// describeJobs names the jobs that a worker ran.
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

// noteKill records why the jobrunner kills the worker.
func (w *worker) noteKill(reason string) {
	w.mu.Lock()
	w.death = cmp.Or(w.death, killedPrefix+reason)
	w.mu.Unlock()
	w.log.Note("the worker is killed: " + reason)
}

// lossReason returns why the worker's jobs are lost, or "" if its process hasn't exited.
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
