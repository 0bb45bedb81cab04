package conformance

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// rerunUsage is the usage of reruns, which the figures of the run exclude.
type rerunUsage struct {
	cases      int
	begin, end usage // of the whole run
}

// usage is the time, requests and jobs of a run so far.
type usage struct {
	wall, target   time.Time
	requests, jobs int64
}

func (r *run) usage() usage {
	return usage{wall: time.Now(), target: r.env.Clock.Now(), requests: r.env.Requests(), jobs: r.env.Jobs()}
}

// startReruns marks the beginning of the reruns.
func (r *run) startReruns(cases int) {
	r.reruns = &rerunUsage{cases: cases, begin: r.usage()}
	r.done = 0 // Progress counts the reruns by themselves
}

func (r *run) endReruns() { r.reruns.end = r.usage() }

// fillUsage fills in the usage of the run and of its reruns.
func (r *run) fillUsage() {
	now := r.usage()
	r.report.Duration = report.Duration(now.wall.Sub(r.started))
	r.report.TargetTime = report.Duration(now.target.Sub(r.began))
	r.report.Requests, r.report.Jobs = now.requests, now.jobs
	if r.reruns == nil {
		return
	}
	begin, end := r.reruns.begin, r.reruns.end
	usage := &report.Reruns{
		Cases: r.reruns.cases, Duration: report.Duration(end.wall.Sub(begin.wall)), TargetTime: report.Duration(end.target.Sub(begin.target)),
		Requests: end.requests - begin.requests, Jobs: end.jobs - begin.jobs,
	}
	r.report.Reruns = usage
	r.report.Duration, r.report.TargetTime = r.report.Duration-usage.Duration, r.report.TargetTime-usage.TargetTime
	r.report.Requests, r.report.Jobs = r.report.Requests-usage.Requests, r.report.Jobs-usage.Jobs
}
