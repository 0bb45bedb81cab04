package cases

import (
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// jobEvent is an operation on a job in a stage, or time that elapses, with the clause about each stage.
type jobEvent struct {
	name string
	// clause returns the clause about a stage, or "".
	clause func(s stage) string
	jobs   int     // submitted jobs, in addition to the stage's
	policy suite.M // of the submitted job
	judge  func(c *suite.C, s stage, j *stagedJob)
}

// combinationCases returns a case for each pair of a stage and an event. Most of them wait for
// half an hour. If the clock can't be advanced, they are skipped, and other cases judge the clause.
func combinationCases() (all []suite.Case) {
	for _, e := range jobEvents {
		for _, s := range stages {
			clause := e.clause(s)
			if clause == "" {
				continue
			}
			all = append(all, suite.Case{
				ID: clause + "-" + e.name + "-" + s.name, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue,
				Requests: 80, Jobs: s.jobs + e.jobs, WaitTime: 2 * time.Hour, Seconds: 1800, Supplementary: true,
				Run: func(c *suite.C) { e.judge(c, s, s.prepare(c, e.policy)) },
			})
		}
	}
	return all
}

func byStatus(clauses map[string]string) func(s stage) string {
	return func(s stage) string { return clauses[s.status] }
}

// cancelClause returns the clause about /cancel of a job that hasn't ended.
var cancelClause = byStatus(map[string]string{suite.InQueue: "JOB-17", suite.InProgress: "JOB-19"})

func countTrue(conditions ...bool) (n int64) {
	for _, condition := range conditions {
		if condition {
			n++
		}
	}
	return n
}

// lifetime is a ttl that is longer than the preparation of any stage, and shorter than the retention.
const lifetime = 25 * time.Minute

var jobEvents = []jobEvent{
	// Any state, ttl elapsed → deleted.
	{
		name: "ttl", policy: suite.M{"ttl": lifetime.Milliseconds()},
		clause: func(s stage) string {
			if s.retried {
				return "SUB-26"
			}
			return byStatus(map[string]string{
				suite.InQueue: "SUB-22", suite.InProgress: "SUB-23", suite.Completed: "SUB-24", suite.Failed: "SUB-25", suite.TimedOut: "SUB-25", suite.Cancelled: "SUB-25",
			})(s)
		},
		judge: func(c *suite.C, s stage, j *stagedJob) {
			due := j.submittedAt.add(lifetime)
			due.judgeJustBefore(c, j.Job, func(status *suite.Answer) { s.expectStatus(c, status) })
			due.expectDeleted(c, j.Job)
		},
	},
	// No request restores a deleted job.
	{
		name: "gone", policy: suite.M{"ttl": lifetime.Milliseconds()},
		clause: func(stage) string { return "SUB-28" },
		judge: func(c *suite.C, s stage, j *stagedJob) {
			j.Status().Is(200).Equal("status", s.status)
			c.UntilEffective(j.submittedAt.add(lifetime).to)
			c.Given("SUB-26", func() { j.Status().Is(404) })
			j.Retry().Is(404)
			j.Cancel().Is(404)
			j.Stream().Is(404)
			j.freeWorker()
			c.Sleep(failingRunTime)
			j.Status().Is(404)
		},
	},
	// GET /status?ttl= sets the time to live, which should count from the submission.
	{
		name:   "ttl-query",
		clause: func(stage) string { return "JOB-44" },
		judge: func(c *suite.C, s stage, j *stagedJob) {
			c.Sleep(2 * time.Minute)
			ttl := c.Now().Sub(j.submittedAt.from).Round(time.Second) + 7*time.Minute
			answer := c.Get(j.Path("status") + "?ttl=" + suite.JSONText(ttl.Milliseconds()))
			if s.expectStatus(c, answer); answer.Code == 404 {
				return // a cancelled job may already be deleted
			}
			due := j.submittedAt.add(ttl)
			due.judgeJustBefore(c, j.Job, func(status *suite.Answer) { s.expectStatus(c, status) })
			c.UntilEffective(due.to)
			c.Should(func() { j.Status().Is(404) })
			intervalOf(answer).add(ttl).expectDeleted(c, j.Job)
		},
	},
	// A ttl that is set while a job waits or runs also applies to its result.
	{
		name: "ttl-of-result", clause: byStatus(map[string]string{suite.InQueue: "JOB-44", suite.InProgress: "JOB-44"}),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			answer := c.Get(j.Path("status")+"?ttl="+suite.JSONText(lifetime.Milliseconds())).Is(200).Equal("status", s.status)
			j.cancel(cancelClause(s))
			j.submittedAt.add(lifetime).untilJustBefore(c)
			c.Should(func() { j.Status().Is(200).Equal("status", suite.Cancelled) })
			intervalOf(answer).add(lifetime).expectDeleted(c, j.Job)
		},
	},
	// A ttl that is set for a FAILED or TIMED_OUT job also applies after a retry.
	{
		name: "ttl-of-retry", clause: byStatus(map[string]string{suite.Failed: "SUB-26", suite.TimedOut: "SUB-26"}),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			answer := c.Get(j.Path("status")+"?ttl="+suite.JSONText(lifetime.Milliseconds())).Is(200).Equal("status", s.status)
			j.retry("JOB-22")
			j.submittedAt.add(lifetime).untilJustBefore(c)
			j.Status().Is(200)
			intervalOf(answer).add(lifetime).expectDeleted(c, j.Job)
		},
	},
	// A ttl can also be prolonged. A result still expires at the end of its retention.
	{
		name: "ttl-longer", policy: suite.M{"ttl": lifetime.Milliseconds()},
		clause: byStatus(map[string]string{
			suite.InQueue: "JOB-44", suite.InProgress: "JOB-44", suite.Completed: "LIM-20", suite.Failed: "LIM-20", suite.TimedOut: "LIM-20", suite.Cancelled: "LIM-20",
		}),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			c.Get(j.Path("status")+"?ttl=10800000").Is(200).Equal("status", s.status)
			if suite.IsFinal(s.status) {
				due := j.endedAt.add(retention)
				if due.untilJustBefore(c) {
					j.Status().Is(200).Equal("status", s.status)
				}
				expectExpired(c, j.Job, due.to)
				return
			}
			c.UntilEffective(j.submittedAt.add(lifetime).to)
			j.Status().Is(200).Equal("status", s.status)
			j.submittedAt.add(3*time.Hour).expectDeleted(c, j.Job)
		},
	},
	// Any final state, retention elapsed → expired, counted from the job's last end.
	{
		name: "kept", clause: retentionClause("LIM-11"),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			due := j.endedAt.add(retention)
			if !due.judgeJustBefore(c, j.Job, func(status *suite.Answer) {
				s.expectStatus(c, status)
				if s.status == suite.Completed {
					status.Equal("output.x", "kept")
				}
			}) {
				c.Inconclusive("the time of the job's end isn't known exactly enough")
			}
			if s.status == suite.Failed || s.status == suite.TimedOut {
				j.Retry().Is(200).Equal("status", suite.InQueue)
			}
		},
	},
	{
		name: "expired", clause: retentionClause("LIM-12"),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			j.Status().Is(200).Equal("status", s.status)
			expectExpired(c, j.Job, j.endedAt.add(retention).to)
		},
	},
	// Retention applies only to results: it does not end a job that waits or runs.
	{
		name: "not-over", clause: byStatus(map[string]string{suite.InQueue: "LIM-17", suite.InProgress: "LIM-17"}),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			if s.status == suite.InProgress && s.retried {
				j.cancel("JOB-19")
			} else {
				c.Until(j.submittedAt.to.Add(retention + 15*time.Minute))
				j.Status().Is(200).Equal("status", s.status)
				j.cancel(cancelClause(s))
			}
			due := j.endedAt.add(retention)
			due.untilJustBefore(c)
			c.Should(func() { j.Status().Is(200).Equal("status", suite.Cancelled) })
		},
	},
	// IN_QUEUE, IN_PROGRESS, POST /cancel → CANCELLED.
	{
		name: "cancel", clause: cancelClause,
		judge: func(c *suite.C, _ stage, j *stagedJob) {
			j.Cancel().Is(200).Equal("id", j.ID).Equal("status", suite.Cancelled)
			j.Await(suite.Cancelled)
			j.freeWorker()
			c.Run(suite.Echo()).AwaitCompleted() // earlier jobs in the queue have begun
			c.Sleep(failingRunTime)
			if later := j.Status(); later.Code != 404 { // the description doesn't say how long a cancelled job exists
				later.Is(200).Equal("status", suite.Cancelled)
			}
		},
		jobs: 1,
	},
	{
		name: "cancel", clause: finalOnly("JOB-31"),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			before := j.Status().Is(200).Equal("status", s.status)
			j.Cancel() // the description leaves its answer open
			expectSameResult(before, j.Status())
			c.Sleep(5 * time.Minute)
			expectSameResult(before, j.Status())
		},
	},
	// FAILED, TIMED_OUT, POST /retry → IN_QUEUE; from every other state it is refused.
	{
		name: "retry", clause: byStatus(map[string]string{suite.Failed: "JOB-22", suite.TimedOut: "JOB-23"}), jobs: 1,
		judge: func(c *suite.C, s stage, j *stagedJob) {
			c.Sleep(time.Minute)
			blocker := c.BusyWorker() // keeps the retried job in the queue
			j.Retry().Is(200).Equal("id", j.ID).Equal("status", suite.InQueue)
			j.Await(suite.InQueue)
			blocker.Cancel()
			if s.status == suite.TimedOut {
				j.Await(suite.InProgress)
				c.Sleep(shortTimeout + c.Grace())
			}
			j.Await(s.status)
		},
	},
	{
		name: "retry", clause: byStatus(map[string]string{suite.Completed: "JOB-27", suite.InQueue: "JOB-28", suite.InProgress: "JOB-29", suite.Cancelled: "JOB-30"}),
		judge: expectRetryRefused,
	},
	// IN_QUEUE, POST /purge-queue → removed; jobs in other states are kept.
	{
		name: "purge", clause: byStatus(map[string]string{suite.InQueue: "OPS-20"}), jobs: 1,
		judge: func(c *suite.C, _ stage, j *stagedJob) {
			c.Given("OPS-17", func() { c.Post("/purge-queue", nil).Is(200) })
			j.freeWorker()
			c.Run(suite.Echo()).AwaitCompleted() // earlier jobs in the queue have begun
			a := j.Status()
			status := a.ValueOrNil("status")
			c.Expect(a.Code/100 != 2 || slices.Contains([]any{suite.InQueue, suite.Cancelled, nil}, status), "no run of a purged job", "status %v", status)
			c.Given("OPS-24", func() { expectHealth(c, "jobs.inQueue", 0) })
		},
	},
	{
		name: "purge-count", clause: byStatus(map[string]string{suite.InQueue: "OPS-17"}),
		judge: func(c *suite.C, _ stage, _ *stagedJob) {
			c.Post("/purge-queue", nil).Is(200).Equal("removed", 1).Equal("status", "completed")
		},
	},
	{
		name: "purge",
		clause: byStatus(map[string]string{
			suite.InProgress: "OPS-18", suite.Completed: "OPS-19", suite.Failed: "OPS-19", suite.TimedOut: "OPS-19", suite.Cancelled: "OPS-19",
		}),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			before := j.Status().Is(200).Equal("status", s.status)
			c.Post("/purge-queue", nil).Is(200).Equal("removed", 0).Equal("status", "completed")
			expectSameResult(before, j.Status())
		},
	},
	// The policy's time-out applies to each run, and doesn't include time in the queue.
	{
		name: "time-out",
		clause: func(s stage) string {
			return map[string]string{"timed-out-running": "SUB-10", "timed-out-queued": "SUB-16"}[s.name]
		},
		judge: func(c *suite.C, s stage, j *stagedJob) {
			limit := failingRunTime
			if s.status == suite.InQueue {
				limit = shortTimeout
				c.Sleep(time.Minute)
				j.Status().Is(200).Equal("status", suite.InQueue)
				cancelled := j.blocker.Cancel()
				j.lastQueued = interval{cancelled.Sent, cancelled.Received}
				j.awaitStart()
			}
			due := j.startedAt.add(limit)
			due.judgeJustBefore(c, j.Job, func(status *suite.Answer) { status.Is(200).Equal("status", suite.InProgress) })
			c.JudgeBy(due.to, func() { j.Status().Is(200).Equal("status", suite.TimedOut) })
		},
	},
	// The counts of /health.
	{
		name: "health", clause: byStatus(map[string]string{suite.InQueue: "OPS-24", suite.InProgress: "OPS-25"}),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			expectHealth(c, "jobs.inQueue", countTrue(s.status == suite.InQueue))
			expectHealth(c, "jobs.inProgress", countTrue(s.status == suite.InProgress, j.blocker != nil))
			c.Given("JOB-19", func() { j.Cancel().Is(200) })
			j.freeWorker()
			expectHealth(c, "jobs.inQueue", 0)
			expectHealth(c, "jobs.inProgress", 0)
		},
	},
	{
		name: "health-gone", clause: byStatus(map[string]string{suite.InQueue: "OPS-24", suite.InProgress: "OPS-25"}), policy: suite.M{"ttl": lifetime.Milliseconds()},
		judge: func(c *suite.C, _ stage, j *stagedJob) {
			c.UntilEffective(j.submittedAt.add(lifetime).to)
			c.Given("SUB-26", func() { j.Status().Is(404) })
			j.freeWorker()
			expectHealth(c, "jobs.inQueue", 0)
			expectHealth(c, "jobs.inProgress", 0)
		},
	},
	{
		name: "health", clause: finalOnly("OPS-26"),
		judge: func(c *suite.C, s stage, j *stagedJob) {
			expectHealth(c, "jobs.inProgress", countTrue(j.blocker != nil))
			expectHealth(c, "jobs.inQueue", 0)
			expectHealth(c, "jobs.completed", countTrue(s.status == suite.Completed))
			if !s.retried && (s.status == suite.Failed || s.status == suite.Completed) {
				expectHealth(c, "jobs.failed", countTrue(s.status == suite.Failed))
			}
		},
	},
}
