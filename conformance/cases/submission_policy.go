package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

const day = 24 * time.Hour

// policy.executionTimeout and policy.lowPriority.
var executionPolicies = []suite.Case{
	{ID: "SUB-09", Needs: suite.Endpoint, Allow: suite.Queue | suite.Spend, Jobs: 2, Takes: 11 * time.Minute, Seconds: 1200, Run: func(c *suite.C) {
		short, long := c.Run(suite.Sleep(595*time.Second)), c.Run(suite.Sleep(2*time.Hour))
		short.Running()
		long.Running()
		c.Until(long.StartedAfter.Add(600*time.Second - c.Early(2*time.Second)))
		long.Status().Before(long.StartedAfter.Add(600*time.Second)).Is(200).Equal("status", suite.InProgress)
		short.Await(suite.Completed)
		c.By(long.StartedBefore.Add(600*time.Second), func() { long.Status().Is(200).Equal("status", suite.TimedOut) })
	}},
	{ID: "SUB-10", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 17 * time.Second, Seconds: 17, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Minute), suite.ExecutionTimeout(10*time.Second))
		j.Running()
		c.Until(j.StartedAfter.Add(10*time.Second - c.Early(time.Second)))
		j.Status().Before(j.StartedAfter.Add(10*time.Second)).Is(200).Equal("status", suite.InProgress)
		c.By(j.StartedBefore.Add(10*time.Second), func() { j.Status().Is(200).Equal("status", suite.TimedOut) })
	}},
	{ID: "SUB-11", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), suite.ExecutionTimeout(5*time.Second))).Is(200)).Await(suite.Completed)
	}},
	{ID: "SUB-12", Needs: suite.Endpoint, Requests: 4, Run: refusesPolicy("executionTimeout", 4999, 0, -1)},
	{ID: "SUB-13", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), suite.ExecutionTimeout(7*day))).Is(200)).Await(suite.Completed)
	}},
	{ID: "SUB-14", Needs: suite.Endpoint, Run: refusesPolicy("executionTimeout", 604_800_001)},
	{ID: "SUB-15", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Takes: 17 * time.Second, Seconds: 15, Run: func(c *suite.C) {
		first, next := c.Run(suite.Sleep(time.Minute), suite.ExecutionTimeout(5*time.Second)), c.Run(suite.Sleep(8*time.Second))
		first.Running()
		c.Sleep(5*time.Second + c.Grace())
		first.TimedOut()
		next.Await(suite.InProgress, suite.Completed)
		c.Sleep(9 * time.Second)
		next.Await(suite.Completed)
	}},
	{ID: "SUB-16", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Takes: 12 * time.Second, Seconds: 10, Run: func(c *suite.C) {
		blocker := c.Blocker(8 * time.Second)
		j := c.Run(suite.Sleep(2*time.Second), suite.ExecutionTimeout(5*time.Second))
		c.Until(blocker.StartedAfter.Add(7 * time.Second))
		c.Given("JOB-02", func() {
			j.Status().Before(blocker.StartedAfter.Add(8*time.Second)).Is(200).Equal("status", suite.InQueue)
		})
		c.Sleep(2 * time.Second)
		j.Await(suite.InProgress, suite.Completed)
		c.Sleep(3 * time.Second)
		j.Await(suite.Completed)
	}},
	{ID: "SUB-17", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 3, Seconds: 2, Run: func(c *suite.C) {
		c.RunSync(suite.Echo()) // starts a worker, which a lowPriority job does not
		for _, low := range []bool{true, false} {
			c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), suite.Policy(suite.M{"lowPriority": low}))).Is(200)).Await(suite.Completed)
		}
		c.Should(func() {
			submit(c, "/run", suite.Submission(suite.Echo(), suite.Policy(suite.M{"lowPriority": "yes"}))).BadRequest()
		})
	}},
	{ID: "SUB-18", Needs: suite.Own, Allow: suite.Queue, Requests: 25, Jobs: 2, Takes: time.Minute, Seconds: 1, Run: func(c *suite.C) {
		low := c.Run(suite.Echo(), suite.Policy(suite.M{"lowPriority": true}))
		for range 6 {
			c.Sleep(10 * time.Second)
			low.Status().Is(200).Equal("status", suite.InQueue)
		}
		c.Run(suite.Echo()).Completed() // this one starts a worker
		low.Await(suite.Completed)
	}},
	{ID: "SUB-31", Needs: suite.Endpoint, Requests: 8, Run: func(c *suite.C) {
		discerns(c)
		for _, value := range []any{"10000", 10000.5, true} {
			for _, name := range []string{"executionTimeout", "ttl"} {
				submit(c, "/run", suite.Submission(suite.Echo(), suite.Policy(suite.M{name: value}))).BadRequest()
			}
		}
	}},
}

// refusesPolicy is for values of a time that are out of its bounds. That those
// within them are accepted, other cases judge: they cost a job.
func refusesPolicy(name string, values ...int64) func(c *suite.C) {
	return func(c *suite.C) {
		discerns(c)
		for _, value := range values {
			submit(c, "/run", suite.Submission(suite.Echo(), suite.Policy(suite.M{name: value}))).BadRequest()
		}
	}
}

// policy.ttl.
var ttlPolicies = []suite.Case{
	{ID: "SUB-19", Needs: suite.Idle | suite.Advanced, Allow: suite.Queue, Jobs: 1, Takes: day, Run: func(c *suite.C) {
		j := c.Run(suite.Echo())
		c.Until(j.Answer.Sent.Add(day - c.Early(10*time.Second)))
		j.Status().Is(200).Equal("status", suite.InQueue)
		during(j.Answer).later(day).isGone(c, j)
	}},
	{ID: "SUB-20", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), suite.TTL(10*time.Second))).Is(200))
		c.Should(func() {
			submit(c, "/run", suite.Submission(suite.Echo(), suite.TTL(9999*time.Millisecond))).BadRequest()
		})
	}},
	{ID: "SUB-21", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), suite.TTL(7*day))).Is(200)).Await(suite.Completed)
		c.Should(func() {
			submit(c, "/run", suite.Submission(suite.Echo(), suite.TTL(7*day+time.Millisecond))).BadRequest()
		})
	}},
	{ID: "SUB-23", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 12, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Minute), suite.TTL(10*time.Second))
		j.Running()
		gone(c, j, suite.InProgress)
	}},
	{ID: "SUB-24", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Echo(), suite.TTL(10*time.Second))
		j.Completed()
		gone(c, j, suite.Completed)
	}},
	{ID: "SUB-25", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Fail(), suite.TTL(10*time.Second))
		j.Failed()
		gone(c, j, suite.Failed)
	}},
	{ID: "SUB-25-cancelled", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 5, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Minute), suite.TTL(10*time.Second))
		j.Running()
		c.Given("JOB-19", func() { j.Cancel().Is(200) })
		gone(c, j, suite.Cancelled)
	}},
	{ID: "SUB-25-timed-out", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 32 * time.Second, Seconds: 6, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Minute), suite.Policy(suite.M{"ttl": 30_000, "executionTimeout": 5000}))
		j.Running()
		c.Sleep(5*time.Second + c.Grace())
		j.TimedOut()
		during(j.Answer).later(30*time.Second).isGone(c, j)
	}},
	{ID: "SUB-26", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Takes: 23 * time.Second, Seconds: 20, Run: func(c *suite.C) {
		c.Blocker(14 * time.Second)
		j := c.Run(suite.Sleep(time.Minute), suite.TTL(20*time.Second))
		c.Sleep(16 * time.Second)
		j.Running()
		c.Until(j.Answer.Sent.Add(20*time.Second - c.Early(time.Second)))
		j.Status().Before(j.Answer.Sent.Add(20 * time.Second)).Is(200)
		during(j.Answer).later(20*time.Second).isGone(c, j)
	}},
	{ID: "SUB-27", Needs: suite.Own | suite.Advanced, Allow: suite.Queue, Jobs: 2, Takes: 7 * day, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/run", suite.Submission(suite.Sleep(2*day-time.Hour), suite.Policy(suite.M{"executionTimeout": (2 * day).Milliseconds(), "ttl": (3 * day).Milliseconds()}))).Is(200)).Running()
		j := c.Run(suite.Sleep(6*day), suite.Policy(suite.M{"executionTimeout": (7 * day).Milliseconds(), "ttl": (7 * day).Milliseconds()}))
		c.Sleep(2 * day)
		j.Running()
		c.Until(j.Answer.Sent.Add(7*day - c.Early(time.Minute)))
		j.Status().Before(j.Answer.Sent.Add(7*day)).Is(200).Equal("status", suite.InProgress)
		during(j.Answer).later(7*day).isGone(c, j)
	}},
	{ID: "SUB-28", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Takes: 12 * time.Second, Seconds: 15, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		j := c.Run(suite.Echo(), suite.TTL(10*time.Second))
		c.Past(j.Answer.Received.Add(10 * time.Second))
		c.Given("SUB-22", func() { j.Status().Is(404) })
		j.Cancel().Is(404)
		j.Retry().Is(404)
		j.Stream().Is(404)
	}},
}

// gone expects that a job with a ttl of 10 s is there until then, and not after
// that.
func gone(c *suite.C, j *suite.Job, status string) {
	c.Until(j.Answer.Sent.Add(10*time.Second - c.Early(time.Second)))
	j.Status().Before(j.Answer.Sent.Add(10*time.Second)).Is(200).Equal("status", status)
	during(j.Answer).later(10*time.Second).isGone(c, j)
}
