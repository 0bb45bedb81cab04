package cases

import (
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// jobTimeCases judge delayTime and executionTime of the section "Job" against times that
// the case caused. The description states no unit, so seconds are accepted with a warning.
var jobTimeCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "JOB-06", Source: "Job, delayTime", Statement: "delayTime is an integer, and should be in milliseconds.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		delay := c.RunSync(suite.Echo()).Answer.Int("delayTime")
		c.Expect(delay >= 0, "a time that is not negative", "delayTime = %d", delay)
	}},
	{ID: "JOB-06-waited", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: func(c *suite.C) {
		a, delay, _ := endAfterWait(c, suite.Completed, suite.Sleep(runTime))
		expectMilliseconds(c, a, "delayTime", delay)
	}},
	{ID: "JOB-06-at-once", Supplementary: true, Needs: suite.OwnEndpoint | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 45 * time.Second, Seconds: 35, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // starts a worker
		j := c.Run(suite.Sleep(runTime))
		started := j.Running().Received
		c.Sleep(runTime + c.Grace())
		expectMilliseconds(c, j.Completed(), "delayTime", span{0, started.Sub(j.Answer.Sent)})
	}},
	// The times of a retried job may cover its last run or all runs.
	{ID: "JOB-06-retried", Supplementary: true, Needs: suite.OwnEndpoint | suite.Advanced, Allow: suite.Queue, Requests: 90, Jobs: 2, WaitTime: 4 * time.Minute, Seconds: 140, Run: func(c *suite.C) {
		j, _, waited, _, since := failTwice(c)
		expectMilliseconds(c, j, "delayTime", waited, since)
	}},
	// The delay is known while the job runs.
	{ID: "JOB-06-running", Supplementary: true, Needs: suite.OwnEndpoint | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: func(c *suite.C) {
		var j *suite.Job
		free := occupyWorker(c, func() { j = c.Run(suite.Sleep(runTime)) })
		a := j.Running()
		expectTimeIfShown(c, a, "delayTime", span{free.Sub(j.Answer.Received), a.Received.Sub(j.Answer.Sent)})
		j.Cancel()
	}},
	{ID: "JOB-07", Source: "Job, executionTime", Statement: "executionTime is an integer, and should be in milliseconds.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		took := c.RunSync(suite.Echo()).Answer.Int("executionTime")
		c.Expect(took >= 0, "a time that is not negative", "executionTime = %d", took)
	}},
	{ID: "JOB-07-ran", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: func(c *suite.C) {
		a, _, execution := endAfterWait(c, suite.Completed, suite.Sleep(runTime))
		expectMilliseconds(c, a, "executionTime", execution)
	}},
	{ID: "JOB-07-at-once", Supplementary: true, Needs: suite.OwnEndpoint | suite.Advanced, Allow: suite.Queue, Requests: 40, Jobs: 2, WaitTime: 2 * time.Second, Seconds: 85, Run: func(c *suite.C) {
		blocker := c.Blocker(waitTime)
		j := c.Run(suite.Echo())
		c.Sleep(waitTime + c.Grace())
		blocker.Completed()
		ended := j.Completed()
		// The job's wait may have any length.
		expectMilliseconds(c, ended, "executionTime", span{0, c.Grace() + ended.Received.Sub(blocker.Answer.Received.Add(waitTime))})
	}},
	// A job has an execution time, whatever its end.
	{ID: "JOB-07-failed", Supplementary: true, Clauses: []string{"JOB-06"}, Needs: suite.OwnEndpoint | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: judgeTimesIfShown(suite.Failed, suite.Stream(1, runTime, suite.M{"message": "failed"}))},
	{ID: "JOB-07-timed-out", Supplementary: true, Clauses: []string{"JOB-06"}, Needs: suite.OwnEndpoint | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: judgeTimesIfShown(suite.TimedOut, suite.Sleep(time.Hour), suite.ExecutionTimeout(runTime))},
	{ID: "JOB-07-retried", Supplementary: true, Needs: suite.OwnEndpoint | suite.Advanced, Allow: suite.Queue, Requests: 90, Jobs: 2, WaitTime: 4 * time.Minute, Seconds: 140, Run: func(c *suite.C) {
		j, last, _, both, _ := failTwice(c)
		expectMilliseconds(c, j, "executionTime", last, both)
	}},
	{ID: "JOB-08", Level: suite.Unspec, Source: "Job, executionTime", Statement: "Whether executionTime is in milliseconds, as JOB-07 expects, or in seconds.",
		Jobs: 1, WaitTime: 2 * time.Second, Seconds: 2, Run: func(c *suite.C) {
			j := c.Run(suite.Sleep(2 * time.Second)).Reach(suite.InProgress)
			c.Sleep(2 * time.Second)
			switch took := j.Completed().Number("executionTime"); {
			case took >= 2000 && took < 60_000:
				c.Observe("milliseconds")
			case took >= 2 && took < 60:
				c.Observe("seconds")
			default:
				c.Observe("%v for 2 s", took)
			}
		}},
	{ID: "JOB-14", Source: "Endpoints B, POST /runsync", Statement: "POST /runsync returns the whole result: status, delayTime, executionTime, id, output.",
		Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			nonce := c.Nonce()
			a := c.Post("/runsync", suite.Submission(suite.Echo(suite.M{"nonce": nonce}))).Is(200).Equal("status", suite.Completed).Equal("output.nonce", nonce)
			a.Str("id")
			a.Int("delayTime")
			a.Int("executionTime")
		}},
	// The answer to /runsync has the same times.
	{ID: "JOB-14-times", Supplementary: true, Needs: suite.OwnEndpoint | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 130 * time.Second, Seconds: 110, Run: func(c *suite.C) {
		var begin time.Time
		var p *suite.Pending
		free := occupyWorker(c, func() {
			begin = c.Now()
			p = c.Start("POST", "/runsync?wait=300000", suite.Submission(suite.Sleep(runTime, suite.M{"output": "done"})))
		})
		c.Sleep(runTime + c.Grace())
		a := p.Answer().Is(200).Equal("status", suite.Completed).Equal("output", "done")
		j, ended := c.JobOf(a), c.Now()
		expectTime(c, a, "delayTime", span{free.Sub(begin), ended.Sub(begin) - runTime})
		expectTime(c, a, "executionTime", span{runTime, ended.Sub(free)})
		now := j.Status().Is(200)
		for _, name := range []string{"delayTime", "executionTime"} {
			now.Equal(name, a.Value(name))
		}
	}},
})

// How long a job waits and runs. The two times and their sum differ.
const (
	waitTime = 70 * time.Second
	runTime  = 30 * time.Second
)

// span is the shortest and the longest duration that a process may have had.
type span struct{ min, max time.Duration }

// occupyWorker keeps the worker busy for waitTime, and calls submit meanwhile. It returns the
// earliest time at which the worker was free again.
func occupyWorker(c *suite.C, submit func()) (free time.Time) {
	blocker := c.Run(suite.Sleep(waitTime))
	started := blocker.Running()
	submit()
	c.Until(started.Received.Add(waitTime + c.Grace()))
	blocker.Completed()
	return blocker.Answer.Sent.Add(waitTime)
}

// endAfterWait returns the status of a job that waited for waitTime, ran for runTime and ended with a
// status, with the spans that the case measured.
func endAfterWait(c *suite.C, status string, input suite.M, more ...suite.M) (a *suite.Answer, delay, execution span) {
	var j *suite.Job
	free := occupyWorker(c, func() { j = c.Run(input, more...) })
	running := j.Await(suite.InProgress, status)
	c.Sleep(runTime + c.Grace())
	c.Given("JOB-16", func() { a = j.Await(status) })
	return a, span{free.Sub(j.Answer.Received), running.Received.Sub(j.Answer.Sent)}, span{runTime, a.Received.Sub(free)}
}

// judgeTimesIfShown judges the times of a job that ends with a status other than COMPLETED.
func judgeTimesIfShown(status string, input suite.M, more ...suite.M) func(*suite.C) {
	return func(c *suite.C) {
		a, delay, execution := endAfterWait(c, status, input, more...)
		expectTimeIfShown(c, a, "executionTime", execution)
		expectTimeIfShown(c, a, "delayTime", delay)
	}
}

// failTwice returns the status of a job that failed after runTime, waited for waitTime, and
// failed again, with the spans of its times.
func failTwice(c *suite.C) (a *suite.Answer, last, waited, both, since span) {
	j := c.Run(suite.Stream(1, runTime, suite.M{"message": "failed"})).Reach(suite.InProgress)
	c.Sleep(runTime + c.Grace())
	first := j.Failed()
	var retried *suite.Answer
	free := occupyWorker(c, func() { c.Given("JOB-22", func() { retried = j.Retry().Is(200) }) })
	running := j.Await(suite.InProgress, suite.Failed)
	c.Sleep(runTime + c.Grace())
	a = j.Failed()
	last = span{runTime, a.Received.Sub(free)}
	both = span{2 * runTime, a.Received.Sub(free) + first.Received.Sub(j.Answer.Sent)}
	waited = span{free.Sub(retried.Received), running.Received.Sub(retried.Sent) + first.Received.Sub(j.Answer.Sent) - runTime}
	since = span{free.Sub(j.Answer.Received), running.Received.Sub(j.Answer.Sent)}
	return a, last, waited, both, since
}

// expectTimeIfShown judges a time if the answer has it. Only a COMPLETED job must have it.
func expectTimeIfShown(c *suite.C, a *suite.Answer, name string, spans ...span) {
	if a.Shown(name) != nil {
		expectMilliseconds(c, a, name, spans...)
	}
}

// expectMilliseconds expects a time within one of the spans, and warns if it isn't in
// milliseconds.
func expectMilliseconds(c *suite.C, a *suite.Answer, name string, spans ...span) {
	milliseconds, text := expectTime(c, a, name, spans...)
	c.Should(func() {
		c.Expect(milliseconds, text+" in milliseconds", "the time %s = %s", name, suite.JSONText(a.Value(name)))
	})
}

// expectTime expects a time within one of the spans, in milliseconds or seconds.
func expectTime(c *suite.C, a *suite.Answer, name string, spans ...span) (milliseconds bool, accepted string) {
	value := float64(a.Int(name))
	fits := func(unit time.Duration) bool {
		for _, s := range spans {
			length := time.Duration(value * float64(unit))
			if length >= s.min-c.EarlyMargin(time.Second)-unit && length <= s.max+c.Grace()+unit {
				return true
			}
		}
		return false
	}
	accepted = name + ":"
	for _, s := range spans {
		accepted += fmt.Sprintf(" from %s to %s,", s.min.Round(time.Second), s.max.Round(time.Second))
	}
	milliseconds = fits(time.Millisecond)
	c.Expect(milliseconds || fits(time.Second) || fits(time.Microsecond), accepted+" in any unit", "the time %s = %v", name, value)
	return milliseconds, accepted
}
