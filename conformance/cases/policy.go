package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// policyCases judge the section "Job submission body", policy: executionTimeout and lowPriority.
var policyCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint}, []suite.Case{
	{ID: "SUB-09", Source: "Limits, policy.executionTimeout", Statement: "Without a policy, executionTimeout is 600,000 ms.",
		Allow: suite.Queue | suite.Spend, Jobs: 1, WaitTime: 11 * time.Minute, Seconds: 600, Run: func(c *suite.C) {
			j := c.Run(suite.Sleep(2 * time.Hour)).Reach(suite.InProgress)
			c.Until(j.StartedAfter.Add(600*time.Second - c.EarlyMargin(2*time.Second)))
			j.Status().IfBefore(j.StartedAfter.Add(600*time.Second)).Is(200).Equal("status", suite.InProgress)
			c.JudgeBy(j.StartedBefore.Add(600*time.Second), func() { j.Status().Is(200).Equal("status", suite.TimedOut) })
		}},
	{ID: "SUB-09-runsync", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue | suite.Spend, Requests: 60, Jobs: 2, WaitTime: 11 * time.Minute, Seconds: 600, Run: func(c *suite.C) {
		c.Run(suite.Echo()).AwaitCompleted() // starts a worker
		j, submitted := outlastWait(c, suite.Sleep(time.Hour))
		expectRunsFor(c, j, submitted, 10*time.Minute)
	}},
	{ID: "SUB-10", Source: "Errors, Timeout", Statement: "A job that runs longer than its executionTimeout becomes TIMED_OUT.",
		Allow: suite.Queue, Jobs: 1, WaitTime: 17 * time.Second, Seconds: 17, Run: func(c *suite.C) {
			j := c.Run(suite.Sleep(time.Minute), suite.ExecutionTimeout(10*time.Second)).Reach(suite.InProgress)
			c.Until(j.StartedAfter.Add(10*time.Second - c.EarlyMargin(time.Second)))
			j.Status().IfBefore(j.StartedAfter.Add(10*time.Second)).Is(200).Equal("status", suite.InProgress)
			c.JudgeBy(j.StartedBefore.Add(10*time.Second), func() { j.Status().Is(200).Equal("status", suite.TimedOut) })
		}},
	{ID: "SUB-11", Source: "Limits, policy.executionTimeout", Statement: "An executionTimeout of 5 s is accepted.", Allow: suite.Queue, Jobs: 2, Seconds: 2, Run: judgePolicy("executionTimeout", []int64{5000}, nil)},
	{ID: "SUB-12", Level: suite.Should, Source: "Limits, policy.executionTimeout", Statement: "An executionTimeout below 5 s is rejected.",
		Requests: 6, Run: judgePolicy("executionTimeout", nil, []int64{4999, 0})},
	{ID: "SUB-13", Source: "Limits, policy.executionTimeout", Statement: "An executionTimeout of 7 days is accepted.", Allow: suite.Queue, Jobs: 2, Seconds: 2, Run: judgePolicy("executionTimeout", []int64{604_800_000}, nil)},
	// A long limit isn't only accepted, but applied.
	{ID: "SUB-13-kept", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 1, WaitTime: 7 * day, Seconds: 600_000, Run: func(c *suite.C) {
		const limit = 6*day + 12*time.Hour
		j := c.Run(suite.Sleep(7*day), suite.Policy(suite.M{"executionTimeout": limit.Milliseconds(), "ttl": (7 * day).Milliseconds()}))
		expectRunsFor(c, j, intervalOf(j.Answer), limit)
	}},
	{ID: "SUB-14", Level: suite.Should, Source: "Limits, policy.executionTimeout", Statement: "An executionTimeout above 7 days is rejected.", Requests: 4, Run: judgePolicy("executionTimeout", nil, []int64{604_800_001})},
	{ID: "SUB-15", Source: "Job submission body, policy", Statement: "An executionTimeout applies only to its own job.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, WaitTime: 17 * time.Second, Seconds: 15, Run: func(c *suite.C) {
			first, next := c.Run(suite.Sleep(time.Minute), suite.ExecutionTimeout(5*time.Second)), c.Run(suite.Sleep(8*time.Second))
			c.Given("JOB-15", func() { first.Await(suite.InProgress, suite.TimedOut) })
			c.Sleep(5*time.Second + c.Grace())
			first.AwaitTimedOut()
			next.Await(suite.InProgress, suite.Completed)
			c.Sleep(9 * time.Second)
			next.Await(suite.Completed)
		}},
	// The policy's time-out overrides the endpoint's, even after a retry.
	{ID: "SUB-15-endpoint", Supplementary: true, Needs: suite.LocalOnly | suite.V2 | suite.AdvanceableClock, Allow: suite.Create | suite.Queue, Requests: 90, Jobs: 3, WaitTime: 6 * time.Minute, Seconds: 400, Run: func(c *suite.C) {
		c.Endpoint = c.NewEndpoint(3, suite.M{"timeout": 60_000})
		shown := c.V2("GET", "/serverless/"+suite.PathSegment(c.Endpoint), nil)
		c.SkipIf(shown.Code != 200 || !suite.Same(shown.ValueOrNil("timeout"), 60_000), "the endpoint shows no time-out")
		for _, limit := range []time.Duration{time.Minute, 20 * time.Second, 3 * time.Minute} {
			policy := suite.M{}
			if limit != time.Minute { // a minute is the endpoint's time-out
				policy = suite.ExecutionTimeout(limit)
			}
			j := c.Run(suite.Sleep(time.Hour), policy)
			expectRunsFor(c, j, intervalOf(j.Answer), limit)
			var retried *suite.Answer
			c.Given("JOB-23", func() { retried = j.Retry().Is(200) })
			expectRunsFor(c, j, intervalOf(retried), limit)
		}
	}},
	{ID: "SUB-16", Source: "Job submission body, policy", Statement: "An executionTimeout counts only while a worker executes the job.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, WaitTime: 24 * time.Second, Seconds: 22, Run: func(c *suite.C) {
			blocker := c.Blocker(20 * time.Second)
			j := c.Run(suite.Sleep(2*time.Second), suite.ExecutionTimeout(5*time.Second))
			c.Until(blocker.StartedAfter.Add(14 * time.Second))
			c.Given("JOB-02", func() {
				j.Status().IfBefore(blocker.StartedAfter.Add(20*time.Second)).Is(200).Equal("status", suite.InQueue)
			})
			c.Until(blocker.StartedBefore.Add(21 * time.Second))
			j.Await(suite.InProgress, suite.Completed)
			c.Sleep(3 * time.Second)
			j.Await(suite.Completed)
		}},
	{ID: "SUB-17", Source: "Job submission body, policy", Statement: "policy.lowPriority is a boolean.", Allow: suite.Queue, Jobs: 3, Seconds: 2, Run: func(c *suite.C) {
		c.RunSync(suite.Echo()) // starts a worker, which a lowPriority job does not
		for _, low := range []bool{true, false} {
			c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), suite.Policy(suite.M{"lowPriority": low}))).Is(200)).Await(suite.Completed)
		}
		c.Should(func() {
			for _, notBoolean := range []any{"yes", 1} {
				expectSubmissionRefused(c, suite.Submission(suite.Echo(), suite.Policy(suite.M{"lowPriority": notBoolean})))
			}
		})
	}},
	{ID: "SUB-18", Source: "Job submission body, policy", Statement: "A lowPriority job starts no worker.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 25, Jobs: 2, WaitTime: time.Minute, Seconds: 1, Run: func(c *suite.C) {
			low := c.Run(suite.Echo(), lowPriority)
			for range 6 {
				c.Sleep(10 * time.Second)
				low.Status().Is(200).Equal("status", suite.InQueue)
			}
			c.Run(suite.Echo()).AwaitCompleted() // starts a worker
			low.Await(suite.Completed)
		}},
	// A lowPriority job keeps its priority when it is retried.
	{ID: "SUB-18-retried", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 150, Jobs: 3, WaitTime: 10 * time.Minute, Seconds: 5, Run: func(c *suite.C) {
		low := c.Run(suite.Fail(suite.M{"times": 1}), lowPriority)
		c.Run(suite.Echo()).AwaitCompleted() // starts a worker, which also runs the other job
		low.AwaitFailed()
		ended := poll(c, 5*time.Minute, 15*time.Second, func() bool {
			a := c.Get("/health").Is(200)
			return a.Int("workers.idle")+a.Int("workers.running") == 0
		})
		c.SkipIf(!ended, "the idle worker of the endpoint does not end")
		c.Given("JOB-22", func() { low.Retry().Is(200) })
		c.Should(func() {
			for range 6 {
				c.Sleep(10 * time.Second)
				low.Status().Is(200).Equal("status", suite.InQueue)
			}
		})
		c.Run(suite.Echo()).AwaitCompleted()
		low.Await(suite.Completed)
	}},
	{ID: "SUB-18-runsync", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 65 * time.Second, Seconds: 2, Run: func(c *suite.C) {
		p := c.Start("POST", "/runsync?wait=300000", suite.Submission(suite.Echo(), lowPriority))
		for range 6 {
			p.Sleep(10 * time.Second)
			c.Expect(!p.AnsweredWithin(suite.TransitTime), "no answer before a worker starts", "an answer")
		}
		c.Run(suite.Echo()).AwaitCompleted() // starts a worker
		a := p.Answer()
		a.IfBefore(a.Sent.Add(5*time.Minute)).Is(200).Equal("status", suite.Completed)
	}},
	{ID: "SUB-31", Level: suite.Should, Source: "Job submission body, policy", Statement: "A duration that isn't an integer is rejected.", Requests: 8, Run: func(c *suite.C) {
		requireDistinctErrors(c)
		for i, value := range []any{"10000", 10000.5, true} {
			for j, name := range []string{"executionTimeout", "ttl"} {
				submit(c, []string{"/run", "/runsync"}[(i+j)%2], suite.Submission(suite.Echo(), suite.Policy(suite.M{name: value}))).BadRequest()
			}
		}
	}},
})

const day = 24 * time.Hour

// judgePolicy judges which durations of the policy, in ms, are accepted, and which should be refused.
func judgePolicy(name string, accepted, refused []int64) func(c *suite.C) {
	submission := func(ms int64) suite.M { return suite.Submission(suite.Echo(), suite.Policy(suite.M{name: ms})) }
	return func(c *suite.C) {
		if len(accepted) == 0 {
			requireDistinctErrors(c)
		}
		for _, ms := range accepted {
			for _, path := range []string{"/run", "/runsync"} {
				c.JobOf(c.Post(path, submission(ms)).Is(200)).Await(suite.Completed)
			}
		}
		c.Should(func() {
			for _, ms := range refused {
				expectSubmissionRefused(c, submission(ms))
			}
		})
	}
}

// expectRunsFor expects a job that was queued at queuedAt to be TIMED_OUT when it has run for the limit, not earlier.
func expectRunsFor(c *suite.C, j *suite.Job, queuedAt interval, limit time.Duration) {
	started := interval{queuedAt.from, j.AwaitRunning().Received}
	due := started.add(limit)
	due.judgeJustBefore(c, j, func(status *suite.Answer) { status.Is(200).Equal("status", suite.InProgress) })
	c.JudgeBy(due.to, func() { j.Status().Is(200).Equal("status", suite.TimedOut) })
}

// ttlCases judge policy.ttl, by the sections "Job submission body" and "States and transitions".
var ttlCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "SUB-19", Source: "Limits, policy.ttl", Statement: "Without a policy, a job lives for 24 hours.",
		Needs: suite.IdleEndpoint | suite.AdvanceableClock, Jobs: 1, WaitTime: day, Run: func(c *suite.C) {
			j := c.Run(suite.Echo())
			intervalOf(j.Answer).add(day).expectLifetime(c, j, suite.InQueue)
		}},
	// Without a policy, a job of /runsync has the same ttl.
	{ID: "SUB-19-runsync", Supplementary: true, Needs: suite.IdleEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 20, Jobs: 1, WaitTime: day, Run: func(c *suite.C) {
		j, submitted := outlastWait(c, suite.Echo())
		submitted.add(day).expectLifetime(c, j, suite.InQueue)
	}},
	{ID: "SUB-19-running", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 1, WaitTime: day, Seconds: 90_000, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(2*day), suite.ExecutionTimeout(2*day)).Reach(suite.InProgress)
		intervalOf(j.Answer).add(day).expectLifetime(c, j, suite.InProgress)
	}},
	{ID: "SUB-20", Source: "Limits, policy.ttl", Statement: "A ttl of 10 s is accepted; a lower one should be rejected.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), suite.TTL(10*time.Second))).Is(200))
		c.Should(func() {
			for _, ttl := range []time.Duration{9999 * time.Millisecond, 0, -time.Second} {
				expectSubmissionRefused(c, suite.Submission(suite.Echo(), suite.TTL(ttl)))
			}
		})
	}},
	{ID: "SUB-21", Source: "Limits, policy.ttl", Statement: "A ttl of 7 days is accepted; a higher one should be rejected.", Jobs: 2, Seconds: 2, Run: judgePolicy("ttl", []int64{604_800_000}, []int64{604_800_001})},
	{ID: "SUB-21-kept", Supplementary: true, Needs: suite.IdleEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 20, Jobs: 1, WaitTime: 7 * day, Run: func(c *suite.C) {
		j := c.Run(suite.Echo(), suite.TTL(7*day))
		intervalOf(j.Answer).add(7*day).expectLifetime(c, j, suite.InQueue)
	}},
	{ID: "SUB-22", Source: "States and transitions, ttl elapsed", Statement: "A queued job is deleted when its ttl ends: 404.",
		Needs: suite.IdleEndpoint, Jobs: 1, WaitTime: 15 * time.Second, Run: judgeTTL(suite.InQueue, suite.Echo())},
	// A queued job whose ttl has passed never runs. SUB-26-never-runs judges a retried one.
	{ID: "SUB-22-never-runs", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks, Allow: suite.Queue, Requests: 60, Jobs: 3, WaitTime: 65 * time.Second, Seconds: 32, Run: func(c *suite.C) {
		blocker, box := c.Blocker(30*time.Second), c.Box()
		expectNeverRuns(c, c.Run(suite.Beacon(box, 0, 0), suite.TTL(10*time.Second)), blocker, box)
	}},
	// /runsync returns no result if the ttl passes during its wait. The description leaves the answer open.
	{ID: "SUB-22-runsync", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 3, WaitTime: 4 * time.Minute, Seconds: 32, Run: func(c *suite.C) {
		blocker, box := c.Blocker(30*time.Second), c.Box()
		p := c.Start("POST", "/runsync?wait=120000", suite.Submission(suite.Beacon(box, 0, 0), suite.TTL(10*time.Second)))
		c.Sleep(35*time.Second + c.Grace())
		blocker.AwaitCompleted()
		expectNotExecuted(c, box, 0, "a job whose ttl has passed")
		expectNoResult(p, 2*time.Minute)
	}},
	{ID: "SUB-23", Source: "States and transitions, ttl elapsed", Statement: "A running job is deleted when its ttl ends: 404.",
		Jobs: 1, WaitTime: 12 * time.Second, Seconds: 12, Run: judgeTTL(suite.InProgress, suite.Sleep(time.Minute))},
	{ID: "SUB-23-runsync", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 3 * time.Minute, Seconds: 60, Run: func(c *suite.C) {
		c.Run(suite.Echo()).AwaitCompleted() // starts a worker
		p := c.Start("POST", "/runsync?wait=120000", suite.Submission(suite.Sleep(time.Minute, suite.M{"output": "late"}), suite.TTL(10*time.Second)))
		c.Sleep(10*time.Second + c.Grace())
		expectNoResult(p, 2*time.Minute)
	}},
	{ID: "SUB-24", Source: "States and transitions, ttl elapsed", Statement: "A COMPLETED job is deleted when its ttl ends, whatever its retention.",
		Jobs: 1, WaitTime: 12 * time.Second, Seconds: 1, Run: judgeTTL(suite.Completed, suite.Echo())},
	{ID: "SUB-25", Source: "States and transitions, ttl elapsed", Statement: "FAILED, CANCELLED and TIMED_OUT jobs are deleted when their ttl ends.",
		Jobs: 1, WaitTime: 12 * time.Second, Seconds: 1, Run: judgeTTL(suite.Failed, suite.Fail())},
	{ID: "SUB-25-cancelled", Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 1, WaitTime: 12 * time.Second, Seconds: 5, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Minute), suite.TTL(10*time.Second)).Reach(suite.InProgress)
		c.Given("JOB-19", func() { j.Cancel().Is(200); j.Await(suite.Cancelled) })
		intervalOf(j.Answer).add(10*time.Second).expectLifetime(c, j, suite.Cancelled)
	}},
	{ID: "SUB-25-timed-out", Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 1, WaitTime: 32 * time.Second, Seconds: 6, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Minute), suite.Policy(suite.M{"ttl": 30_000, "executionTimeout": 5000})).Reach(suite.InProgress)
		c.Sleep(5*time.Second + c.Grace())
		j.AwaitTimedOut()
		intervalOf(j.Answer).add(30*time.Second).expectDeleted(c, j)
	}},
	{ID: "SUB-26", Source: "Limits, policy.ttl", Statement: "The ttl starts at the submission and covers both queue and execution.",
		Needs: suite.OwnEndpoint, Jobs: 2, WaitTime: 43 * time.Second, Seconds: 40, Run: func(c *suite.C) {
			c.Blocker(14 * time.Second)
			j := c.Run(suite.Sleep(time.Minute), suite.TTL(40*time.Second))
			c.Sleep(16 * time.Second)
			j.AwaitRunning()
			intervalOf(j.Answer).add(40*time.Second).expectLifetime(c, j, suite.InProgress)
		}},
	{ID: "SUB-26-never-runs", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 3, WaitTime: 100 * time.Second, Seconds: 100, Run: func(c *suite.C) {
		box := c.Box()
		j := c.Run(suite.Beacon(box, 0, time.Hour), suite.Policy(suite.M{"ttl": 45_000, "executionTimeout": 5000})).Reach(suite.InProgress)
		c.Sleep(5*time.Second + c.Grace())
		j.AwaitTimedOut()
		blocker := c.Blocker(60 * time.Second)
		c.Given("JOB-23", func() { j.Retry().Is(200) })
		expectNeverRuns(c, j, blocker, box)
	}},
	{ID: "SUB-27", Source: "Limits", Statement: "With a ttl of 7 days, 2 days in the queue leave 5 for the execution.",
		Needs: suite.OwnEndpoint | suite.AdvanceableClock, Jobs: 2, WaitTime: 7 * day, Seconds: 1, Run: func(c *suite.C) {
			c.JobOf(c.Post("/run", suite.Submission(suite.Sleep(2*day-time.Hour), suite.Policy(suite.M{"executionTimeout": (2 * day).Milliseconds(), "ttl": (3 * day).Milliseconds()}))).Is(200)).AwaitRunning()
			j := c.Run(suite.Sleep(6*day), suite.Policy(suite.M{"executionTimeout": (7 * day).Milliseconds(), "ttl": (7 * day).Milliseconds()}))
			c.Sleep(2 * day)
			j.AwaitRunning()
			intervalOf(j.Answer).add(7*day).expectLifetime(c, j, suite.InProgress)
		}},
	{ID: "SUB-28", Source: "Errors, 404", Statement: "A deleted job can't be cancelled, retried or streamed.",
		Needs: suite.OwnEndpoint, Jobs: 2, WaitTime: 12 * time.Second, Seconds: 15, Run: func(c *suite.C) {
			c.Blocker(30 * time.Second)
			j := c.Run(suite.Echo(), suite.TTL(10*time.Second))
			c.UntilEffective(j.Answer.Received.Add(10 * time.Second))
			c.Given("SUB-22", func() { j.Status().Is(404) })
			j.Cancel().Is(404)
			j.Retry().Is(404)
			j.Stream().Is(404)
		}},
})

// judgeTTL judges that a job with a ttl of 10 s exists with a status before that time, and not after it.
func judgeTTL(status string, input suite.M) func(*suite.C) {
	return func(c *suite.C) {
		j := c.Run(input, suite.TTL(10*time.Second))
		if status != suite.InQueue {
			j.Reach(status)
		}
		intervalOf(j.Answer).add(10*time.Second).expectLifetime(c, j, status)
	}
}

// expectNeverRuns expects that a job whose ttl passes while a blocker occupies the worker is
// deleted, and doesn't start after the blocker. The job's handler calls the box.
func expectNeverRuns(c *suite.C, j, blocker *suite.Job, box *env.Box) {
	earlierCalls := len(box.Calls())
	c.Until(blocker.Answer.Received.Add(time.Minute + c.Grace()))
	blocker.Await(suite.Completed)
	expectNotExecuted(c, box, earlierCalls, "a job whose ttl has passed")
	j.Status().Is(404)
}

// expectNoResult expects that a held /runsync is not answered with a result.
func expectNoResult(p *suite.Pending, wait time.Duration) {
	p.Sleep(wait + 15*time.Second)
	a := p.Answer()
	a.Expect(a.Code/100 != 2 || a.ValueOrNil("status") != suite.Completed, "no result of a job whose ttl has passed")
}
