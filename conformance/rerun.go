package conformance

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// rerun is what it takes to run failed cases again, which the figures of the run
// leave out.
type rerun struct {
	cases      int
	begin, end usage
}

// usage is what a run has taken so far.
type usage struct {
	wall, target   time.Time
	requests, jobs int64
}

func (r *run) usage() usage {
	return usage{wall: time.Now(), target: r.env.Clock.Now(), requests: r.env.Requests(), jobs: r.env.Jobs()}
}

// startReruns begins to count for so many reruns.
func (r *run) startReruns(cases int) {
	r.reruns = &rerun{cases: cases, begin: r.usage()}
	r.done = 0 // of these
}

func (r *run) endReruns() { r.reruns.end = r.usage() }

// count fills in what the run took, and what its reruns did.
func (r *run) count() {
	now := r.usage()
	r.report.Took = report.Duration(now.wall.Sub(r.started))
	r.report.Passed = report.Duration(now.target.Sub(r.began))
	r.report.Requests, r.report.Jobs = now.requests, now.jobs
	if r.reruns == nil {
		return
	}
	begin, end := r.reruns.begin, r.reruns.end
	again := &report.Reruns{
		Cases: r.reruns.cases, Took: report.Duration(end.wall.Sub(begin.wall)), Passed: report.Duration(end.target.Sub(begin.target)),
		Requests: end.requests - begin.requests, Jobs: end.jobs - begin.jobs,
	}
	r.report.Reruns = again
	r.report.Took, r.report.Passed = r.report.Took-again.Took, r.report.Passed-again.Passed
	r.report.Requests, r.report.Jobs = r.report.Requests-again.Requests, r.report.Jobs-again.Jobs
}
