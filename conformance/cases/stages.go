package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// A stage is a state of a job and the way into it. What an operation does to a
// job, or a time that elapses, is the same whichever way the job came: so the
// cases of this kind are a product, of stages and of effects (effects.go).
type stage struct {
	name   string
	status string
	again  bool // the job was retried on its way
	jobs   int
	reach  func(c *suite.C, policy suite.M) *passage
}

// passage is a job that has reached its stage.
type passage struct {
	*suite.Job
	c                         *suite.C
	blocker                   *suite.Job
	submitted, started, ended interval // ended: the last end
	requeued                  interval // by /retry
}

// interval is when something happened: not before from, and not after to.
type interval struct{ from, to time.Time }

func during(a *suite.Answer) interval { return interval{a.Sent, a.Received} }

// later is the interval of what happens so long after it.
func (i interval) later(d time.Duration) interval { return interval{i.from.Add(d), i.to.Add(d)} }

// just waits until shortly before it happens, and is false where that has passed.
func (i interval) just(c *suite.C) bool {
	t := i.from.Add(-c.Early(2 * time.Second))
	if !c.Now().Before(t) {
		return false
	}
	c.Until(t)
	return true
}

// past waits until it has happened, as late as that may be.
func (i interval) past(c *suite.C) { c.Past(i.to) }

// by judges what has happened by then; look changes nothing.
func (i interval) by(c *suite.C, look func()) { c.By(i.to, look) }

// isGone expects that a job whose ttl is over at that time is not there.
func (i interval) isGone(c *suite.C, j *suite.Job) { i.by(c, func() { j.Status().Is(404) }) }

const (
	longRun    = 6 * time.Hour    // a run that outlasts its case
	secondRun  = 15 * time.Minute // a run that ends by itself, by an error or by its time-out
	shortLimit = 5 * time.Second
)

// stages are the states, each by every way that the table of transitions has.
var stages = []stage{
	{"queued", suite.InQueue, false, 2, func(c *suite.C, policy suite.M) *passage {
		blocker := c.BusyWorker()
		p := submitted(c, suite.Echo(), policy)
		p.blocker = blocker
		p.InQueue()
		return p
	}},
	{"low-priority", suite.InQueue, false, 1, func(c *suite.C, policy suite.M) *passage {
		p := submitted(c, suite.Echo(), policy, suite.M{"lowPriority": true})
		p.InQueue()
		return p
	}},
	{"running", suite.InProgress, false, 1, func(c *suite.C, policy suite.M) *passage {
		p := submitted(c, suite.Sleep(longRun), policy, suite.M{"executionTimeout": (7 * time.Hour).Milliseconds()})
		p.run()
		return p
	}},
	{"completed", suite.Completed, false, 1, func(c *suite.C, policy suite.M) *passage {
		p := submitted(c, suite.Echo(suite.M{"x": "kept"}), policy)
		p.end(p.Completed())
		return p
	}},
	{"failed", suite.Failed, false, 1, failedOnce},
	{"timed-out", suite.TimedOut, false, 1, timedOutOnce},
	{"cancelled", suite.Cancelled, false, 1, func(c *suite.C, policy suite.M) *passage {
		p := submitted(c, suite.Sleep(longRun), policy)
		p.run()
		p.cancel("JOB-19")
		return p
	}},
	{"cancelled-queued", suite.Cancelled, false, 2, func(c *suite.C, policy suite.M) *passage {
		blocker := c.BusyWorker()
		p := submitted(c, suite.Echo(), policy)
		p.blocker = blocker
		p.InQueue()
		p.cancel("JOB-17")
		return p
	}},
	{"failed-queued", suite.InQueue, true, 2, func(c *suite.C, policy suite.M) *passage { return failedOnce(c, policy).queueAgain("JOB-22") }},
	{"timed-out-queued", suite.InQueue, true, 2, func(c *suite.C, policy suite.M) *passage { return timedOutOnce(c, policy).queueAgain("JOB-23") }},
	{"failed-running", suite.InProgress, true, 1, failedRunning},
	{"timed-out-running", suite.InProgress, true, 1, timedOutRunning},
	{"failed-completed", suite.Completed, true, 1, func(c *suite.C, policy suite.M) *passage {
		p := submitted(c, suite.Fail(suite.M{"times": 1, "x": "kept"}), policy)
		p.end(p.Failed())
		c.Sleep(2 * time.Minute)
		p.retry("JOB-22")
		p.end(p.Completed())
		return p
	}},
	{"failed-failed", suite.Failed, true, 1, func(c *suite.C, policy suite.M) *passage {
		p := failedOnce(c, policy)
		c.Sleep(2 * time.Minute)
		p.retry("JOB-22")
		p.end(p.Failed())
		return p
	}},
	{"timed-out-timed-out", suite.TimedOut, true, 1, func(c *suite.C, policy suite.M) *passage {
		p := timedOutOnce(c, policy)
		p.retry("JOB-23")
		p.run()
		p.timeOut(shortLimit)
		return p
	}},
	{"failed-cancelled", suite.Cancelled, true, 1, func(c *suite.C, policy suite.M) *passage {
		p := failedRunning(c, policy)
		p.cancel("JOB-19")
		return p
	}},
	{"timed-out-cancelled-queued", suite.Cancelled, true, 2, func(c *suite.C, policy suite.M) *passage {
		p := timedOutOnce(c, policy).queueAgain("JOB-23")
		p.cancel("JOB-17")
		return p
	}},
}

func failedOnce(c *suite.C, policy suite.M) *passage {
	p := submitted(c, suite.Fail(suite.M{"output": "left", "message": "failed"}), policy)
	p.end(p.Failed())
	return p
}

func timedOutOnce(c *suite.C, policy suite.M) *passage {
	p := submitted(c, suite.Sleep(longRun), policy, suite.M{"executionTimeout": shortLimit.Milliseconds()})
	p.run()
	p.timeOut(shortLimit)
	return p
}

// failedRunning runs again, and fails after secondRun each time.
func failedRunning(c *suite.C, policy suite.M) *passage {
	p := submitted(c, suite.Stream(1, secondRun, suite.M{"message": "failed"}), policy, suite.M{"executionTimeout": (7 * time.Hour).Milliseconds()})
	p.run()
	c.Sleep(secondRun + c.Grace())
	p.end(p.Failed())
	p.ended = interval{p.started.from.Add(secondRun), p.ended.to}
	p.retry("JOB-22")
	p.run()
	return p
}

// timedOutRunning runs again, and times out after secondRun each time.
func timedOutRunning(c *suite.C, policy suite.M) *passage {
	p := submitted(c, suite.Sleep(longRun), policy, suite.M{"executionTimeout": secondRun.Milliseconds()})
	p.run()
	p.timeOut(secondRun)
	p.retry("JOB-23")
	p.run()
	return p
}

// submitted submits a job with these members of the policy.
func submitted(c *suite.C, input any, policies ...suite.M) *passage {
	policy := suite.M{}
	for _, members := range policies {
		for name, value := range members {
			policy[name] = value
		}
	}
	j := c.Run(input, suite.Policy(policy))
	return &passage{Job: j, c: c, submitted: during(j.Answer), requeued: during(j.Answer)}
}

// run waits for the start, which follows the last queueing.
func (p *passage) run() { p.started = interval{p.requeued.from, p.Running().Received} }

// end notes the end that an answer shows.
func (p *passage) end(shown *suite.Answer) { p.ended = interval{p.requeued.from, shown.Received} }

func (p *passage) timeOut(limit time.Duration) {
	over := p.started.later(limit)
	p.c.Until(over.to.Add(p.c.Grace()))
	p.ended = interval{over.from, p.TimedOut().Received}
}

func (p *passage) cancel(clause string) {
	p.c.Given(clause, func() {
		p.ended = during(p.Cancel().Is(200))
		p.Await(suite.Cancelled) // a read may come from before the change
	})
}

func (p *passage) retry(clause string) {
	p.c.Given(clause, func() { p.requeued = during(p.Retry().Is(200)) })
	if !p.c.Exact() {
		p.c.Sleep(consistency) // a read from before it would show the former end
	}
}

// queueAgain retries the job behind one that keeps the worker busy.
func (p *passage) queueAgain(clause string) *passage {
	p.blocker = p.c.BusyWorker()
	p.retry(clause)
	p.InQueue()
	return p
}

// hasStatus expects the status of a stage. For how long a cancelled job is shown,
// which has no result, only follows from what is said of results.
func hasStatus(c *suite.C, s stage, a *suite.Answer) {
	look := func() { a.Is(200).Equal("status", s.status) }
	if s.status == suite.Cancelled {
		c.Should(look)
		return
	}
	look()
}

// unchanged expects the status and the output that a job had before.
func unchanged(was, now *suite.Answer) {
	now.Is(200).Equal("status", was.Str("status"))
	if output, ok := was.Find("output"); ok {
		now.Equal("output", output)
	} else {
		now.Absent("output")
	}
}

func overOnly(clause string) func(s stage) string {
	return func(s stage) string {
		if suite.Over(s.status) {
			return clause
		}
		return ""
	}
}

// keeps chooses the clause of the first end; that the retention of a retried job
// is new, another one says.
func keeps(clause string) func(s stage) string {
	return func(s stage) string {
		switch {
		case !suite.Over(s.status):
			return ""
		case s.again:
			return "LIM-19"
		}
		return clause
	}
}
