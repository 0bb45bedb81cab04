package cases

import (
	"time"

	. "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite" //nolint:revive,staticcheck // a case reads like the contract
)

const day = 24 * time.Hour

// policy.executionTimeout and policy.lowPriority.
var executionPolicies = []Case{
	{ID: "SUB-09", Needs: Endpoint, Allow: Queue | Spend, Jobs: 2, Takes: 11 * time.Minute, Seconds: 1200, Run: func(c *C) {
		short, long := c.Run(Sleep(590*time.Second)), c.Run(Sleep(2*time.Hour))
		short.Running()
		long.Running()
		c.Sleep(595 * time.Second)
		short.Await(Completed)
		long.Status().Is(200).Equal("status", InProgress)
		c.Sleep(5*time.Second + c.Grace())
		long.Await(TimedOut)
	}},
	{ID: "SUB-10", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 12, Run: func(c *C) {
		j := c.Run(Sleep(time.Minute), ExecutionTimeout(5*time.Second))
		j.Running()
		c.Sleep(4 * time.Second)
		j.Status().Is(200).Equal("status", InProgress)
		c.Sleep(time.Second + c.Grace())
		j.Await(TimedOut)
	}},
	{ID: "SUB-11", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.JobOf(c.Post("/run", Submission(Echo(), ExecutionTimeout(5*time.Second))).Is(200)).Await(Completed)
	}},
	{ID: "SUB-12", Needs: Endpoint, Run: refusesPolicy("executionTimeout", 4999, 0, -1)},
	{ID: "SUB-13", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.JobOf(c.Post("/run", Submission(Echo(), ExecutionTimeout(7*day))).Is(200)).Await(Completed)
	}},
	{ID: "SUB-14", Needs: Endpoint, Run: refusesPolicy("executionTimeout", 604_800_001)},
	{ID: "SUB-15", Needs: Own, Allow: Queue, Jobs: 2, Takes: 17 * time.Second, Seconds: 15, Run: func(c *C) {
		first, next := c.Run(Sleep(time.Minute), ExecutionTimeout(5*time.Second)), c.Run(Sleep(8*time.Second))
		first.Running()
		c.Sleep(5*time.Second + c.Grace())
		first.TimedOut()
		next.Await(InProgress, Completed)
		c.Sleep(9 * time.Second)
		next.Await(Completed)
	}},
	{ID: "SUB-16", Needs: Own, Allow: Queue, Jobs: 2, Takes: 12 * time.Second, Seconds: 10, Run: func(c *C) {
		c.Blocker(8 * time.Second)
		j := c.Run(Sleep(2*time.Second), ExecutionTimeout(5*time.Second))
		c.Sleep(7 * time.Second)
		c.Given("JOB-02", func() { j.Status().Is(200).Equal("status", InQueue) })
		c.Sleep(2 * time.Second)
		j.Await(InProgress, Completed)
		c.Sleep(3 * time.Second)
		j.Await(Completed)
	}},
	{ID: "SUB-17", Needs: Endpoint, Allow: Queue, Jobs: 3, Seconds: 2, Run: func(c *C) {
		c.RunSync(Echo()) // starts a worker, which a lowPriority job does not
		for _, low := range []bool{true, false} {
			c.JobOf(c.Post("/run", Submission(Echo(), Policy(M{"lowPriority": low}))).Is(200)).Await(Completed)
		}
		c.Should(func() { submit(c, "/run", Submission(Echo(), Policy(M{"lowPriority": "yes"}))).BadRequest() })
	}},
	{ID: "SUB-18", Needs: Own, Allow: Queue, Jobs: 2, Takes: time.Minute, Seconds: 1, Run: func(c *C) {
		low := c.Run(Echo(), Policy(M{"lowPriority": true}))
		for range 6 {
			c.Sleep(10 * time.Second)
			low.Status().Is(200).Equal("status", InQueue)
		}
		c.Run(Echo()).Completed() // this one starts a worker
		low.Await(Completed)
	}},
	{ID: "SUB-31", Needs: Endpoint, Run: func(c *C) {
		for _, value := range []any{"10000", 10000.5, true} {
			for _, name := range []string{"executionTimeout", "ttl"} {
				submit(c, "/run", Submission(Echo(), Policy(M{name: value}))).BadRequest()
			}
		}
	}},
}

// refusesPolicy is for values of a time that are out of its bounds, where one
// within them is accepted.
func refusesPolicy(name string, values ...int64) func(c *C) {
	return func(c *C) {
		for _, value := range values {
			submit(c, "/run", Submission(Echo(), Policy(M{name: value}))).BadRequest()
		}
	}
}

// policy.ttl.
var ttlPolicies = []Case{
	{ID: "SUB-19", Needs: Idle | Advanced, Allow: Queue, Jobs: 1, Takes: day, Run: func(c *C) {
		j := c.Run(Echo())
		c.Sleep(day - 10*time.Second)
		j.Status().Is(200).Equal("status", InQueue)
		c.Sleep(10*time.Second + c.Grace())
		j.Status().Is(404)
	}},
	{ID: "SUB-20", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.JobOf(c.Post("/run", Submission(Echo(), TTL(10*time.Second))).Is(200))
		c.Should(func() { submit(c, "/run", Submission(Echo(), TTL(9999*time.Millisecond))).BadRequest() })
	}},
	{ID: "SUB-21", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.JobOf(c.Post("/run", Submission(Echo(), TTL(7*day))).Is(200)).Await(Completed)
		c.Should(func() { submit(c, "/run", Submission(Echo(), TTL(7*day+time.Millisecond))).BadRequest() })
	}},
	{ID: "SUB-23", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 12, Run: func(c *C) {
		j := c.Run(Sleep(time.Minute), TTL(10*time.Second))
		j.Running()
		gone(c, j, InProgress)
	}},
	{ID: "SUB-24", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 1, Run: func(c *C) {
		j := c.Run(Echo(), TTL(10*time.Second))
		j.Completed()
		gone(c, j, Completed)
	}},
	{ID: "SUB-25", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 1, Run: func(c *C) {
		j := c.Run(Fail(), TTL(10*time.Second))
		j.Failed()
		gone(c, j, Failed)
	}},
	{ID: "SUB-25-cancelled", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 5, Run: func(c *C) {
		j := c.Run(Sleep(time.Minute), TTL(10*time.Second))
		j.Running()
		c.Given("JOB-19", func() { j.Cancel().Is(200) })
		gone(c, j, Cancelled)
	}},
	{ID: "SUB-25-timed-out", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 17 * time.Second, Seconds: 6, Run: func(c *C) {
		j := c.Run(Sleep(time.Minute), Policy(M{"ttl": 15_000, "executionTimeout": 5000}))
		j.Running()
		c.Sleep(5*time.Second + c.Grace())
		j.TimedOut()
		c.Until(j.Answer.Received.Add(15*time.Second + c.Grace()))
		j.Status().Is(404)
	}},
	{ID: "SUB-26", Needs: Own, Allow: Queue, Jobs: 2, Takes: 23 * time.Second, Seconds: 20, Run: func(c *C) {
		c.Blocker(14 * time.Second)
		j := c.Run(Sleep(time.Minute), TTL(20*time.Second))
		c.Sleep(16 * time.Second)
		j.Running()
		c.Until(j.Answer.Sent.Add(19 * time.Second))
		j.Status().Is(200)
		c.Until(j.Answer.Received.Add(20*time.Second + c.Grace()))
		j.Status().Is(404)
	}},
	{ID: "SUB-27", Needs: Own | Advanced, Allow: Queue, Jobs: 2, Takes: 7 * day, Seconds: 1, Run: func(c *C) {
		c.JobOf(c.Post("/run", Submission(Sleep(2*day-time.Hour), Policy(M{"executionTimeout": (2 * day).Milliseconds(), "ttl": (3 * day).Milliseconds()}))).Is(200)).Running()
		j := c.Run(Sleep(6*day), Policy(M{"executionTimeout": (7 * day).Milliseconds(), "ttl": (7 * day).Milliseconds()}))
		c.Sleep(2 * day)
		j.Running()
		c.Until(j.Answer.Sent.Add(7*day - time.Minute))
		j.Status().Is(200).Equal("status", InProgress)
		c.Until(j.Answer.Received.Add(7*day + c.Grace()))
		j.Status().Is(404)
	}},
	{ID: "SUB-28", Needs: Own, Allow: Queue, Jobs: 2, Takes: 12 * time.Second, Seconds: 15, Run: func(c *C) {
		c.Blocker(30 * time.Second)
		j := c.Run(Echo(), TTL(10*time.Second))
		c.Given("SUB-22", func() { gone(c, j, InQueue) })
		j.Cancel().Is(404)
		j.Retry().Is(404)
		j.Stream().Is(404)
	}},
}

// gone expects that a job with a ttl of 10 s is there until then, and not after
// that.
func gone(c *C, j *Job, status string) {
	c.Until(j.Answer.Sent.Add(9 * time.Second))
	j.Status().Is(200).Equal("status", status)
	c.Until(j.Answer.Received.Add(10*time.Second + c.Grace()))
	j.Status().Is(404)
}
