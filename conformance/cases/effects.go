package cases

import (
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// An effect is an operation on a job, or a time that elapses, and what the
// description says of it for each state.
type effect struct {
	name string
	// clause is the one that says so for a stage, "" where nobody does.
	clause func(s stage) string
	jobs   int     // beside those of the stage
	policy suite.M // of the job
	judge  func(c *suite.C, s stage, p *passage)
}

// combinationCases are the product. They cost a job or two each, and most of them
// wait for half an hour: where the clock can't be advanced, the other cases of
// their clauses judge.
func combinationCases() (all []suite.Case) {
	for _, e := range effects {
		for _, s := range stages {
			clause := e.clause(s)
			if clause == "" {
				continue
			}
			all = append(all, suite.Case{
				ID: clause + "-" + e.name + "-" + s.name, Needs: suite.Own | suite.Advanced, Allow: suite.Queue,
				Requests: 80, Jobs: s.jobs + e.jobs, Takes: 2 * time.Hour, Seconds: 1800, More: true,
				Run: func(c *suite.C) { e.judge(c, s, s.reach(c, e.policy)) },
			})
		}
	}
	return all
}

// byStatus chooses the clause by the status of a stage.
func byStatus(clauses map[string]string) func(s stage) string {
	return func(s stage) string { return clauses[s.status] }
}

// lifetime is longer than the way into any stage, and shorter than retention.
const lifetime = 25 * time.Minute

var effects = []effect{
	// any, ttl elapsed → deleted.
	{
		name: "ttl", policy: suite.M{"ttl": lifetime.Milliseconds()},
		clause: func(s stage) string {
			if s.again {
				return "SUB-26"
			}
			return byStatus(map[string]string{
				suite.InQueue: "SUB-22", suite.InProgress: "SUB-23", suite.Completed: "SUB-24", suite.Failed: "SUB-25", suite.TimedOut: "SUB-25", suite.Cancelled: "SUB-25",
			})(s)
		},
		judge: func(c *suite.C, s stage, p *passage) {
			over := p.submitted.later(lifetime)
			if over.just(c) {
				there := p.Status()
				c.Before(there, over.from)
				hasStatus(c, s, there)
			}
			over.isGone(c, p.Job)
		},
	},
	// What is gone stays gone, whatever is asked of it.
	{
		name: "gone", policy: suite.M{"ttl": lifetime.Milliseconds()},
		clause: func(stage) string { return "SUB-28" },
		judge: func(c *suite.C, s stage, p *passage) {
			p.Status().Is(200).Equal("status", s.status)
			p.submitted.later(lifetime).past(c)
			c.Given("SUB-26", func() { p.Status().Is(404) })
			p.Retry().Is(404)
			p.Cancel().Is(404)
			p.Stream().Is(404)
			if p.blocker != nil {
				p.blocker.Cancel()
			}
			c.Sleep(secondRun)
			p.Status().Is(404)
		},
	},
	// GET /status?ttl= sets the time to live, which counts from the submission.
	{
		name:   "ttl-query",
		clause: func(stage) string { return "JOB-44" },
		judge: func(c *suite.C, s stage, p *passage) {
			c.Sleep(2 * time.Minute)
			ttl := c.Now().Sub(p.submitted.from).Round(time.Second) + 7*time.Minute
			set := c.Get("/status/"+p.ID+"?ttl="+suite.Text(ttl.Milliseconds())).Is(200).Equal("status", s.status)
			over := p.submitted.later(ttl)
			if over.just(c) {
				there := p.Status()
				c.Before(there, over.from)
				hasStatus(c, s, there)
			}
			over.past(c)
			c.Should(func() { p.Status().Is(404) })
			during(set).later(ttl).isGone(c, p.Job)
		},
	},
	// What is set while a job waits or runs counts for its result, too.
	{
		name: "ttl-of-result", clause: byStatus(map[string]string{suite.InQueue: "JOB-44", suite.InProgress: "JOB-44"}),
		judge: func(c *suite.C, s stage, p *passage) {
			set := c.Get("/status/"+p.ID+"?ttl="+suite.Text(lifetime.Milliseconds())).Is(200).Equal("status", s.status)
			p.cancel("JOB-19")
			p.submitted.later(lifetime).just(c)
			c.Should(func() { p.Status().Is(200).Equal("status", suite.Cancelled) })
			during(set).later(lifetime).isGone(c, p.Job)
		},
	},
	// and for one that is retried after it.
	{
		name: "ttl-of-retry", clause: byStatus(map[string]string{suite.Failed: "SUB-26", suite.TimedOut: "SUB-26"}),
		judge: func(c *suite.C, s stage, p *passage) {
			set := c.Get("/status/"+p.ID+"?ttl="+suite.Text(lifetime.Milliseconds())).Is(200).Equal("status", s.status)
			p.retry("JOB-22")
			p.submitted.later(lifetime).just(c)
			p.Status().Is(200)
			during(set).later(lifetime).isGone(c, p.Job)
		},
	},
	// It can be prolonged, too, but not beyond the retention of a result.
	{
		name: "ttl-longer", policy: suite.M{"ttl": lifetime.Milliseconds()},
		clause: func(s stage) string {
			if s.status == suite.InQueue || s.status == suite.InProgress {
				return "JOB-44"
			}
			return "LIM-20"
		},
		judge: func(c *suite.C, s stage, p *passage) {
			c.Get("/status/"+p.ID+"?ttl=10800000").Is(200).Equal("status", s.status)
			if suite.Over(s.status) {
				over := p.ended.later(retention)
				if over.just(c) {
					p.Status().Is(200).Equal("status", s.status)
				}
				expired(c, p.Job, over.to)
				return
			}
			p.submitted.later(lifetime).past(c)
			p.Status().Is(200).Equal("status", s.status)
			p.submitted.later(3*time.Hour).isGone(c, p.Job)
		},
	},
	// any, retention elapsed → expired; it counts from the last end.
	{
		name: "kept", clause: keeps("LIM-11"),
		judge: func(c *suite.C, s stage, p *passage) {
			over := p.ended.later(retention)
			if !over.just(c) {
				c.Inconclusive("the end of the job is not known well enough")
			}
			there := p.Status()
			c.Before(there, over.from)
			hasStatus(c, s, there)
			if s.status == suite.Completed {
				there.Equal("output.x", "kept")
			}
			if s.status == suite.Failed || s.status == suite.TimedOut {
				p.Retry().Is(200).Equal("status", suite.InQueue)
			}
		},
	},
	{
		name: "expired", clause: keeps("LIM-12"),
		judge: func(c *suite.C, s stage, p *passage) {
			p.Status().Is(200).Equal("status", s.status)
			expired(c, p.Job, p.ended.later(retention).to)
		},
	},
	// The retention is that of a result: a job that is not over has none.
	{
		name: "not-over", clause: byStatus(map[string]string{suite.InQueue: "LIM-17", suite.InProgress: "LIM-17"}),
		judge: func(c *suite.C, s stage, p *passage) {
			if s.status == suite.InProgress && s.again {
				p.cancel("JOB-19")
			} else {
				c.Until(p.submitted.to.Add(retention + 15*time.Minute))
				p.Status().Is(200).Equal("status", s.status)
				p.cancel("JOB-17")
			}
			over := p.ended.later(retention)
			over.just(c)
			c.Should(func() { p.Status().Is(200).Equal("status", suite.Cancelled) })
		},
	},
	// IN_QUEUE, IN_PROGRESS, POST /cancel → CANCELLED.
	{
		name: "cancel", clause: byStatus(map[string]string{suite.InQueue: "JOB-17", suite.InProgress: "JOB-19"}),
		judge: func(c *suite.C, _ stage, p *passage) {
			p.Cancel().Is(200).Equal("id", p.ID).Equal("status", suite.Cancelled)
			p.Await(suite.Cancelled)
			if p.blocker != nil {
				p.blocker.Cancel()
			}
			c.Run(suite.Echo()).Completed() // whatever was in the queue before it has begun
			c.Sleep(secondRun)
			p.Status().Is(200).Equal("status", suite.Cancelled)
		},
		jobs: 1,
	},
	{
		name: "cancel", clause: overOnly("JOB-31"),
		judge: func(c *suite.C, s stage, p *passage) {
			was := p.Status().Is(200).Equal("status", s.status)
			p.Cancel() // what it answers is open
			unchanged(was, p.Status())
			c.Sleep(5 * time.Minute)
			unchanged(was, p.Status())
		},
	},
	// FAILED, TIMED_OUT, POST /retry → IN_QUEUE; and from nowhere else.
	{
		name: "retry", clause: byStatus(map[string]string{suite.Failed: "JOB-22", suite.TimedOut: "JOB-23"}), jobs: 1,
		judge: func(c *suite.C, s stage, p *passage) {
			c.Sleep(time.Minute)
			blocker := c.BusyWorker() // so that it is seen to wait again
			p.Retry().Is(200).Equal("id", p.ID).Equal("status", suite.InQueue)
			p.Await(suite.InQueue)
			blocker.Cancel()
			if s.status == suite.TimedOut {
				p.Await(suite.InProgress)
				c.Sleep(shortLimit + c.Grace())
			}
			p.Await(s.status)
		},
	},
	{
		name: "retry", clause: byStatus(map[string]string{suite.Completed: "JOB-27", suite.InQueue: "JOB-28", suite.InProgress: "JOB-29", suite.Cancelled: "JOB-30"}),
		judge: func(_ *suite.C, s stage, p *passage) {
			was := p.Status().Is(200).Equal("status", s.status)
			p.Retry().Refused()
			unchanged(was, p.Status())
		},
	},
	// IN_QUEUE, POST /purge-queue → removed; no other.
	{
		name: "purge", clause: byStatus(map[string]string{suite.InQueue: "OPS-20"}), jobs: 1,
		judge: func(c *suite.C, _ stage, p *passage) {
			c.Given("OPS-17", func() { c.Post("/purge-queue", nil).Is(200) })
			if p.blocker != nil {
				p.blocker.Cancel()
			}
			c.Run(suite.Echo()).Completed() // whatever was in the queue before it has begun
			a := p.Status()
			status, _ := a.Find("status")
			c.Expect(a.Code != 200 || slices.Contains([]any{suite.InQueue, suite.Cancelled, nil}, status), "no run of a purged job", "status %v", status)
			health(c, "jobs.inQueue", 0)
		},
	},
	{
		name: "purge-count", clause: byStatus(map[string]string{suite.InQueue: "OPS-17"}),
		judge: func(c *suite.C, _ stage, _ *passage) {
			c.Post("/purge-queue", nil).Is(200).Equal("removed", 1).Equal("status", "completed")
		},
	},
	{
		name: "purge",
		clause: func(s stage) string {
			switch s.status {
			case suite.InQueue:
				return ""
			case suite.InProgress:
				return "OPS-18"
			}
			return "OPS-19"
		},
		judge: func(c *suite.C, s stage, p *passage) {
			was := p.Status().Is(200).Equal("status", s.status)
			c.Post("/purge-queue", nil).Is(200).Equal("removed", 0).Equal("status", "completed")
			unchanged(was, p.Status())
		},
	},
	// The time-out of the policy counts for each run, and only while it lasts.
	{
		name: "time-out",
		clause: func(s stage) string {
			switch s.name {
			case "timed-out-running":
				return "SUB-10"
			case "timed-out-queued":
				return "SUB-16"
			}
			return ""
		},
		judge: func(c *suite.C, s stage, p *passage) {
			limit := secondRun
			if s.status == suite.InQueue {
				limit = shortLimit
				c.Sleep(time.Minute)
				p.Status().Is(200).Equal("status", suite.InQueue)
				freed := p.blocker.Cancel()
				p.requeued = interval{freed.Sent, freed.Received}
				p.run()
			}
			over := p.started.later(limit)
			if over.just(c) {
				there := p.Status()
				c.Before(there, over.from)
				there.Is(200).Equal("status", suite.InProgress)
			}
			over.by(c, func() { p.Status().Is(200).Equal("status", suite.TimedOut) })
		},
	},
	// What /health counts.
	{
		name: "health", clause: byStatus(map[string]string{suite.InQueue: "OPS-24", suite.InProgress: "OPS-25"}),
		judge: func(c *suite.C, s stage, p *passage) {
			queued, running := int64(0), int64(1)
			if s.status == suite.InQueue {
				queued, running = 1, 0
			}
			if p.blocker != nil {
				running++
			}
			health(c, "jobs.inQueue", queued)
			health(c, "jobs.inProgress", running)
			c.Given("JOB-19", func() { p.Cancel().Is(200) })
			if p.blocker != nil {
				c.Given("JOB-19", func() { p.blocker.Cancel().Is(200) })
			}
			health(c, "jobs.inQueue", 0)
			health(c, "jobs.inProgress", 0)
		},
	},
	{
		name: "health-gone", clause: byStatus(map[string]string{suite.InQueue: "OPS-24", suite.InProgress: "OPS-25"}), policy: suite.M{"ttl": lifetime.Milliseconds()},
		judge: func(c *suite.C, _ stage, p *passage) {
			p.submitted.later(lifetime).past(c)
			c.Given("SUB-26", func() { p.Status().Is(404) })
			if p.blocker != nil {
				c.Given("JOB-19", func() { p.blocker.Cancel().Is(200) })
			}
			health(c, "jobs.inQueue", 0)
			health(c, "jobs.inProgress", 0)
		},
	},
	{
		name: "health", clause: overOnly("OPS-26"),
		judge: func(c *suite.C, s stage, p *passage) {
			running := int64(0)
			if p.blocker != nil {
				running++
			}
			completed := int64(0)
			if s.status == suite.Completed {
				completed++
			}
			health(c, "jobs.inProgress", running)
			health(c, "jobs.inQueue", 0)
			health(c, "jobs.completed", completed)
			if !s.again && s.status == suite.Failed {
				health(c, "jobs.failed", 1)
			}
			if !s.again && s.status == suite.Completed {
				health(c, "jobs.failed", 0)
			}
			// What has ended once is counted once, also when its result is gone.
			p.ended.later(retention).past(c)
			health(c, "jobs.completed", completed)
		},
	},
}
