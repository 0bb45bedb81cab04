package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// noteExit notes the end of a process that ended by itself: in its log, in the
// jobrunner's, in its reason, and, through that, in the errors of its jobs.
func (w *worker) noteExit(end run.Exit) {
	exit := end.Text
	w.mu.Lock()
	jobs := slices.Sorted(maps.Keys(w.jobs))
	asked, unfit := w.state != Initializing, w.state == Unhealthy
	leaves := !w.takesJobs() && len(jobs) == 0 && end.OK // as it was to
	if w.death == "" {
		w.death = exit
	}
	starts := !w.hadJob && w.state != Unhealthy && (!asked || w.pool.clock.Now().Sub(w.started) <= startWindow)
	switch {
	case starts && asked:
		w.apply(failed)
		w.reason, w.crashed = "it ended right after its start, with "+exit, true
	case starts:
		w.apply(failed)
		w.reason, w.crashed = w.startFailure(end), !end.OK // a successful exit leaves no cause in the log
	case w.state != Unhealthy:
		w.reason = "its process ended with " + exit + describeJobs(jobs)
	}
	w.mu.Unlock()
	w.log.Note("the process ended with " + exit + describeJobs(jobs))
	if !starts && !leaves && !unfit { // its reason is said elsewhere
		w.pool.logger.Warn("a worker died", "endpoint", w.pool.id, "worker", w.id, "exit", exit, "jobs", jobs)
	}
}

// startFailure is why a worker did not start whose process has ended. The worker is
// locked.
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

// describeJobs says what a worker was at.
func describeJobs(jobs []string) string {
	switch len(jobs) {
	case 0:
		return ""
	case 1:
		return ", while it ran the job " + jobs[0]
	}
	return fmt.Sprintf(", while it ran %d jobs: %s", len(jobs), strings.Join(jobs, ", "))
}

const killedByUs = "SIGKILL from the jobrunner: "

// noteKill notes why the jobrunner kills the worker.
func (w *worker) noteKill(reason string) {
	w.mu.Lock()
	w.death = cmp.Or(w.death, killedByUs+reason)
	w.mu.Unlock()
	w.log.Note("the worker is killed: " + reason)
}

// lossReason is why the jobs that the worker holds are lost.
func (w *worker) lossReason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.death == "" {
		return ""
	}
	reason := "its worker died with " + w.death
	// What a worker wrote last is often the cause of an end of its own.
	if tail := w.log.Tail(maxLastLine); tail != "" && !strings.HasPrefix(w.death, killedByUs) {
		reason += "; the last line of its log: " + tail[strings.LastIndexByte(tail, '\n')+1:]
	}
	return reason
}

// maxLastLine limits the line of a log in a job's error, in bytes.
const maxLastLine = 300

// failure is why the worker could not work, with the end of its log.
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
