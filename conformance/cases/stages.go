package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// stage is a state of a job, with the way in which the job reached it. What an event (events.go) does to
// the job must not depend on that way, so each pair of a stage and an event is a case.
type stage struct {
	name    string
	status  string
	retried bool // the job was retried before
	jobs    int  // number of jobs that prepare submits
	prepare func(c *suite.C, policy suite.M) *stagedJob
}

type stagedJob struct {
	*suite.Job
	c                               *suite.C
	blocker                         *suite.Job
	submittedAt, startedAt, endedAt interval // endedAt is the last end
	lastQueued                      interval // time of the last submission or retry
}

// interval has the earliest and the latest time of an event.
type interval struct{ from, to time.Time }

func intervalOf(a *suite.Answer) interval { return interval{a.Sent, a.Received} }

func (i interval) add(d time.Duration) interval { return interval{i.from.Add(d), i.to.Add(d)} }

// untilJustBefore waits until shortly before the event. It returns false if that time has passed.
func (i interval) untilJustBefore(c *suite.C) bool {
	t := i.from.Add(-c.EarlyMargin(2 * time.Second))
	if !c.Now().Before(t) {
		return false
	}
	c.Until(t)
	return true
}

// judgeJustBefore judges a job's status shortly before the event. It returns false if that time has passed.
func (i interval) judgeJustBefore(c *suite.C, j *suite.Job, judge func(status *suite.Answer)) bool {
	if !i.untilJustBefore(c) {
		return false
	}
	a := j.Status()
	c.ExpectBefore(a, i.from)
	judge(a)
	return true
}

// expectDeleted expects that a job doesn't exist after its ttl, which ends in the interval.
func (i interval) expectDeleted(c *suite.C, j *suite.Job) {
	c.JudgeBy(i.to, func() { j.Status().Is(404) })
}

// expectLifetime expects a job's status until its ttl ends, in the interval, and no job afterwards.
func (i interval) expectLifetime(c *suite.C, j *suite.Job, status string) {
	c.Until(i.from.Add(-c.EarlyMargin(2 * time.Second)))
	j.Status().IfBefore(i.from).Is(200).Equal("status", status)
	i.expectDeleted(c, j)
}

const (
	longRunTime    = 6 * time.Hour    // a run that doesn't end during the case
	failingRunTime = 15 * time.Minute // a run that ends with an error or a time-out
	shortTimeout   = 5 * time.Second
)

// stages has each state, with ways to reach it that the table of transitions allows.
var stages = []stage{
	{"queued", suite.InQueue, false, 2, queueEcho},
	{"low-priority", suite.InQueue, false, 1, func(c *suite.C, policy suite.M) *stagedJob {
		j := submitStaged(c, suite.Echo(), policy, suite.M{"lowPriority": true})
		j.AwaitInQueue()
		return j
	}},
	{"running", suite.InProgress, false, 1, func(c *suite.C, policy suite.M) *stagedJob {
		return submitStaged(c, suite.Sleep(longRunTime), policy, suite.M{"executionTimeout": (7 * time.Hour).Milliseconds()}).awaitStart()
	}},
	{"completed", suite.Completed, false, 1, func(c *suite.C, policy suite.M) *stagedJob {
		return submitStaged(c, suite.Echo(suite.M{"x": "kept"}), policy).awaitEnd((*suite.Job).AwaitCompleted)
	}},
	{"failed", suite.Failed, false, 1, failOnce},
	{"timed-out", suite.TimedOut, false, 1, timeOutOnce},
	{"cancelled", suite.Cancelled, false, 1, func(c *suite.C, policy suite.M) *stagedJob {
		return submitStaged(c, suite.Sleep(longRunTime), policy).awaitStart().cancel("JOB-19")
	}},
	{"cancelled-queued", suite.Cancelled, false, 2, func(c *suite.C, policy suite.M) *stagedJob { return queueEcho(c, policy).cancel("JOB-17") }},
	{"failed-queued", suite.InQueue, true, 2, func(c *suite.C, policy suite.M) *stagedJob { return failOnce(c, policy).requeue("JOB-22") }},
	{"timed-out-queued", suite.InQueue, true, 2, func(c *suite.C, policy suite.M) *stagedJob { return timeOutOnce(c, policy).requeue("JOB-23") }},
	{"failed-running", suite.InProgress, true, 1, rerunAfterFailure},
	{"timed-out-running", suite.InProgress, true, 1, func(c *suite.C, policy suite.M) *stagedJob { // it times out after each start
		j := submitStaged(c, suite.Sleep(longRunTime), policy, suite.M{"executionTimeout": failingRunTime.Milliseconds()})
		return j.awaitStart().awaitTimeout(failingRunTime).retry("JOB-23").awaitStart()
	}},
	{"failed-completed", suite.Completed, true, 1, func(c *suite.C, policy suite.M) *stagedJob {
		j := submitStaged(c, suite.Fail(suite.M{"times": 1, "x": "kept"}), policy).awaitEnd((*suite.Job).AwaitFailed)
		c.Sleep(2 * time.Minute)
		return j.retry("JOB-22").awaitEnd((*suite.Job).AwaitCompleted)
	}},
	{"failed-failed", suite.Failed, true, 1, func(c *suite.C, policy suite.M) *stagedJob {
		j := failOnce(c, policy)
		c.Sleep(2 * time.Minute)
		return j.retry("JOB-22").awaitEnd((*suite.Job).AwaitFailed)
	}},
	{"timed-out-timed-out", suite.TimedOut, true, 1, func(c *suite.C, policy suite.M) *stagedJob {
		return timeOutOnce(c, policy).retry("JOB-23").awaitStart().awaitTimeout(shortTimeout)
	}},
	{"failed-cancelled", suite.Cancelled, true, 1, func(c *suite.C, policy suite.M) *stagedJob { return rerunAfterFailure(c, policy).cancel("JOB-19") }},
	{"timed-out-cancelled-queued", suite.Cancelled, true, 2, func(c *suite.C, policy suite.M) *stagedJob {
		return timeOutOnce(c, policy).requeue("JOB-23").cancel("JOB-17")
	}},
}

// queueEcho returns a job that waits while another one keeps the worker busy.
func queueEcho(c *suite.C, policy suite.M) *stagedJob {
	blocker := c.BusyWorker()
	j := submitStaged(c, suite.Echo(), policy)
	j.blocker = blocker
	j.AwaitInQueue()
	return j
}

func failOnce(c *suite.C, policy suite.M) *stagedJob {
	return submitStaged(c, suite.Fail(suite.M{"output": "left", "message": "failed"}), policy).awaitEnd((*suite.Job).AwaitFailed)
}

func timeOutOnce(c *suite.C, policy suite.M) *stagedJob {
	return submitStaged(c, suite.Sleep(longRunTime), policy, suite.M{"executionTimeout": shortTimeout.Milliseconds()}).awaitStart().awaitTimeout(shortTimeout)
}

// rerunAfterFailure returns a retried job that runs. It fails failingRunTime after each start.
func rerunAfterFailure(c *suite.C, policy suite.M) *stagedJob {
	j := submitStaged(c, suite.Stream(1, failingRunTime, suite.M{"message": "failed"}), policy, suite.M{"executionTimeout": (7 * time.Hour).Milliseconds()}).awaitStart()
	c.Sleep(failingRunTime + c.Grace())
	j.awaitEnd((*suite.Job).AwaitFailed)
	j.endedAt.from = j.startedAt.from.Add(failingRunTime)
	return j.retry("JOB-22").awaitStart()
}

func submitStaged(c *suite.C, input any, policies ...suite.M) *stagedJob {
	j := c.Run(input, suite.Policy(suite.Merge(policies...)))
	return &stagedJob{Job: j, c: c, submittedAt: intervalOf(j.Answer), lastQueued: intervalOf(j.Answer)}
}

func (j *stagedJob) awaitStart() *stagedJob {
	j.startedAt = interval{j.lastQueued.from, j.AwaitRunning().Received}
	return j
}

// awaitEnd waits for a final status and records the time.
func (j *stagedJob) awaitEnd(await func(*suite.Job) *suite.Answer) *stagedJob {
	j.endedAt = interval{j.lastQueued.from, await(j.Job).Received}
	return j
}

func (j *stagedJob) awaitTimeout(limit time.Duration) *stagedJob {
	due := j.startedAt.add(limit)
	j.c.Until(due.to.Add(j.c.Grace()))
	j.endedAt = interval{due.from, j.AwaitTimedOut().Received}
	return j
}

func (j *stagedJob) cancel(clause string) *stagedJob {
	j.c.Given(clause, func() {
		j.endedAt = intervalOf(j.Cancel().Is(200))
		j.Await(suite.Cancelled) // an earlier read may be older than the change
	})
	return j
}

func (j *stagedJob) retry(clause string) *stagedJob {
	j.c.Given(clause, func() { j.lastQueued = intervalOf(j.Retry().Is(200)) })
	if !j.c.ControlsClock() {
		j.c.Sleep(consistency) // a read that lags would show the previous end
	}
	return j
}

// requeue retries the job while another one keeps the worker busy.
func (j *stagedJob) requeue(clause string) *stagedJob {
	j.blocker = j.c.BusyWorker()
	j.retry(clause).AwaitInQueue()
	return j
}

// freeWorker cancels the job that keeps the worker busy, if there is one.
func (j *stagedJob) freeWorker() {
	if j.blocker != nil {
		j.c.Given("JOB-19", func() { j.blocker.Cancel().Is(200) })
	}
}

// expectStatus expects the status of the stage. For a cancelled job this is a SHOULD: the job has
// no result, so its retention is only derived from the retention of results.
func (s stage) expectStatus(c *suite.C, a *suite.Answer) {
	check := func() { a.Is(200).Equal("status", s.status) }
	if s.status == suite.Cancelled {
		c.Should(check)
		return
	}
	check()
}

func expectSameResult(before, after *suite.Answer) {
	after.Is(200).Equal("status", before.Str("status"))
	if output, ok := before.Find("output"); ok {
		after.Equal("output", output)
	} else {
		after.Absent("output")
	}
}

// finalOnly selects a clause for the stages whose state is final, and none for the others.
func finalOnly(clause string) func(s stage) string {
	return func(s stage) string {
		if suite.IsFinal(s.status) {
			return clause
		}
		return ""
	}
}

// retentionClause selects a clause for final stages, or LIM-19 if the job was retried, because a retry restarts the retention.
func retentionClause(clause string) func(s stage) string {
	return func(s stage) string {
		if s.retried {
			return finalOnly("LIM-19")(s)
		}
		return finalOnly(clause)(s)
	}
}
