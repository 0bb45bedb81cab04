package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// A stage is a state of a job and the way into it. An operation or an elapsed time has
// the same effect whichever way the job came: so there is a case for each pair of a
// stage and an effect (effects.go).
type stage struct {
	name    string
	status  string
	retried bool // the job was retried on its way
	jobs    int
	prepare func(c *suite.C, policy suite.M) *stagedJob
}

// stagedJob is a job that has reached its stage.
type stagedJob struct {
	*suite.Job
	c                               *suite.C
	blocker                         *suite.Job
	submittedAt, startedAt, endedAt interval // ended: the last end
	lastQueued                      interval // by /retry
}

// interval bounds the time of an event: not before from, and not after to.
type interval struct{ from, to time.Time }

func intervalOf(a *suite.Answer) interval { return interval{a.Sent, a.Received} }

// add shifts the interval.
func (i interval) add(d time.Duration) interval { return interval{i.from.Add(d), i.to.Add(d)} }

// untilJustBefore waits until shortly before the event, and is false where that time
// has passed.
func (i interval) untilJustBefore(c *suite.C) bool {
	t := i.from.Add(-c.EarlyMargin(2 * time.Second))
	if !c.Now().Before(t) {
		return false
	}
	c.Until(t)
	return true
}

// untilEffective waits until the event must have taken effect.
func (i interval) untilEffective(c *suite.C) { c.UntilEffective(i.to) }

// judgeBy judges the effect of the event; check changes nothing.
func (i interval) judgeBy(c *suite.C, check func()) { c.JudgeBy(i.to, check) }

// expectDeleted expects that a job whose ttl ends then does not exist any more.
func (i interval) expectDeleted(c *suite.C, j *suite.Job) {
	i.judgeBy(c, func() { j.Status().Is(404) })
}

const (
	longRunTime   = 6 * time.Hour    // a run that outlasts its case
	secondRunTime = 15 * time.Minute // a run that ends by itself, by an error or by its time-out
	shortLimit    = 5 * time.Second
)

// stages are the states, each by every way that the table of transitions has.
var stages = []stage{
	{"queued", suite.InQueue, false, 2, func(c *suite.C, policy suite.M) *stagedJob {
		blocker := c.BusyWorker()
		p := submitStaged(c, suite.Echo(), policy)
		p.blocker = blocker
		p.InQueue()
		return p
	}},
	{"low-priority", suite.InQueue, false, 1, func(c *suite.C, policy suite.M) *stagedJob {
		p := submitStaged(c, suite.Echo(), policy, suite.M{"lowPriority": true})
		p.InQueue()
		return p
	}},
	{"running", suite.InProgress, false, 1, func(c *suite.C, policy suite.M) *stagedJob {
		p := submitStaged(c, suite.Sleep(longRunTime), policy, suite.M{"executionTimeout": (7 * time.Hour).Milliseconds()})
		p.awaitStart()
		return p
	}},
	{"completed", suite.Completed, false, 1, func(c *suite.C, policy suite.M) *stagedJob {
		p := submitStaged(c, suite.Echo(suite.M{"x": "kept"}), policy)
		p.recordEnd(p.Completed())
		return p
	}},
	{"failed", suite.Failed, false, 1, failOnce},
	{"timed-out", suite.TimedOut, false, 1, timeOutOnce},
	{"cancelled", suite.Cancelled, false, 1, func(c *suite.C, policy suite.M) *stagedJob {
		p := submitStaged(c, suite.Sleep(longRunTime), policy)
		p.awaitStart()
		p.cancel("JOB-19")
		return p
	}},
	{"cancelled-queued", suite.Cancelled, false, 2, func(c *suite.C, policy suite.M) *stagedJob {
		blocker := c.BusyWorker()
		p := submitStaged(c, suite.Echo(), policy)
		p.blocker = blocker
		p.InQueue()
		p.cancel("JOB-17")
		return p
	}},
	{"failed-queued", suite.InQueue, true, 2, func(c *suite.C, policy suite.M) *stagedJob { return failOnce(c, policy).requeue("JOB-22") }},
	{"timed-out-queued", suite.InQueue, true, 2, func(c *suite.C, policy suite.M) *stagedJob { return timeOutOnce(c, policy).requeue("JOB-23") }},
	{"failed-running", suite.InProgress, true, 1, rerunAfterFailure},
	{"timed-out-running", suite.InProgress, true, 1, rerunAfterTimeout},
	{"failed-completed", suite.Completed, true, 1, func(c *suite.C, policy suite.M) *stagedJob {
		p := submitStaged(c, suite.Fail(suite.M{"times": 1, "x": "kept"}), policy)
		p.recordEnd(p.Failed())
		c.Sleep(2 * time.Minute)
		p.retry("JOB-22")
		p.recordEnd(p.Completed())
		return p
	}},
	{"failed-failed", suite.Failed, true, 1, func(c *suite.C, policy suite.M) *stagedJob {
		p := failOnce(c, policy)
		c.Sleep(2 * time.Minute)
		p.retry("JOB-22")
		p.recordEnd(p.Failed())
		return p
	}},
	{"timed-out-timed-out", suite.TimedOut, true, 1, func(c *suite.C, policy suite.M) *stagedJob {
		p := timeOutOnce(c, policy)
		p.retry("JOB-23")
		p.awaitStart()
		p.awaitTimeout(shortLimit)
		return p
	}},
	{"failed-cancelled", suite.Cancelled, true, 1, func(c *suite.C, policy suite.M) *stagedJob {
		p := rerunAfterFailure(c, policy)
		p.cancel("JOB-19")
		return p
	}},
	{"timed-out-cancelled-queued", suite.Cancelled, true, 2, func(c *suite.C, policy suite.M) *stagedJob {
		p := timeOutOnce(c, policy).requeue("JOB-23")
		p.cancel("JOB-17")
		return p
	}},
}

func failOnce(c *suite.C, policy suite.M) *stagedJob {
	p := submitStaged(c, suite.Fail(suite.M{"output": "left", "message": "failed"}), policy)
	p.recordEnd(p.Failed())
	return p
}

func timeOutOnce(c *suite.C, policy suite.M) *stagedJob {
	p := submitStaged(c, suite.Sleep(longRunTime), policy, suite.M{"executionTimeout": shortLimit.Milliseconds()})
	p.awaitStart()
	p.awaitTimeout(shortLimit)
	return p
}

// rerunAfterFailure runs again, and fails after secondRun each time.
func rerunAfterFailure(c *suite.C, policy suite.M) *stagedJob {
	p := submitStaged(c, suite.Stream(1, secondRunTime, suite.M{"message": "failed"}), policy, suite.M{"executionTimeout": (7 * time.Hour).Milliseconds()})
	p.awaitStart()
	c.Sleep(secondRunTime + c.Grace())
	p.recordEnd(p.Failed())
	p.endedAt = interval{p.startedAt.from.Add(secondRunTime), p.endedAt.to}
	p.retry("JOB-22")
	p.awaitStart()
	return p
}

// rerunAfterTimeout runs again, and times out after secondRun each time.
func rerunAfterTimeout(c *suite.C, policy suite.M) *stagedJob {
	p := submitStaged(c, suite.Sleep(longRunTime), policy, suite.M{"executionTimeout": secondRunTime.Milliseconds()})
	p.awaitStart()
	p.awaitTimeout(secondRunTime)
	p.retry("JOB-23")
	p.awaitStart()
	return p
}

// submitStaged submits a job with these members of the policy.
func submitStaged(c *suite.C, input any, policies ...suite.M) *stagedJob {
	policy := suite.M{}
	for _, members := range policies {
		for name, value := range members {
			policy[name] = value
		}
	}
	j := c.Run(input, suite.Policy(policy))
	return &stagedJob{Job: j, c: c, submittedAt: intervalOf(j.Answer), lastQueued: intervalOf(j.Answer)}
}

// awaitStart waits until the job runs.
func (p *stagedJob) awaitStart() { p.startedAt = interval{p.lastQueued.from, p.Running().Received} }

// recordEnd records the end of the job, which an answer shows.
func (p *stagedJob) recordEnd(shown *suite.Answer) {
	p.endedAt = interval{p.lastQueued.from, shown.Received}
}

func (p *stagedJob) awaitTimeout(limit time.Duration) {
	due := p.startedAt.add(limit)
	p.c.Until(due.to.Add(p.c.Grace()))
	p.endedAt = interval{due.from, p.TimedOut().Received}
}

func (p *stagedJob) cancel(clause string) {
	p.c.Given(clause, func() {
		p.endedAt = intervalOf(p.Cancel().Is(200))
		p.Await(suite.Cancelled) // a read may come from before the change
	})
}

func (p *stagedJob) retry(clause string) {
	p.c.Given(clause, func() { p.lastQueued = intervalOf(p.Retry().Is(200)) })
	if !p.c.Exact() {
		p.c.Sleep(consistency) // a read that lags would show the former end
	}
}

// requeue retries the job while another one keeps the worker busy.
func (p *stagedJob) requeue(clause string) *stagedJob {
	p.blocker = p.c.BusyWorker()
	p.retry(clause)
	p.InQueue()
	return p
}

// expectStageStatus expects the status of a stage. A cancelled job has no result, and
// that it is shown for as long is only derived from the retention of results.
func expectStageStatus(c *suite.C, s stage, a *suite.Answer) {
	look := func() { a.Is(200).Equal("status", s.status) }
	if s.status == suite.Cancelled {
		c.Should(look)
		return
	}
	look()
}

// expectSameResult expects the same status and output as before.
func expectSameResult(was, now *suite.Answer) {
	now.Is(200).Equal("status", was.Str("status"))
	if output, ok := was.Find("output"); ok {
		now.Equal("output", output)
	} else {
		now.Absent("output")
	}
}

func finalOnly(clause string) func(s stage) string {
	return func(s stage) string {
		if suite.IsFinal(s.status) {
			return clause
		}
		return ""
	}
}

// retentionClause returns the given clause for a job's first end, and LIM-19 for a
// retried job, whose retention begins anew.
func retentionClause(clause string) func(s stage) string {
	return func(s stage) string {
		switch {
		case !suite.IsFinal(s.status):
			return ""
		case s.retried:
			return "LIM-19"
		}
		return clause
	}
}
