package cases

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// queueCases judge the sections "Purge response" and "Health response".
var queueCases = section(suite.Case{Level: suite.Must, Needs: suite.OwnEndpoint}, []suite.Case{
	{ID: "OPS-17", Source: "Purge response", Statement: "/purge-queue returns the number of removed jobs and the status completed.",
		Allow: suite.Queue, Jobs: 4, Seconds: 30, Run: func(c *suite.C) {
			c.Blocker(10 * time.Minute)
			for range 3 {
				c.Run(suite.Echo())
			}
			c.Post("/purge-queue", nil).Is(200).Equal("removed", 3).Equal("status", "completed")
		}},
	{ID: "OPS-17-many", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 121, Requests: 140, Seconds: 30, Run: func(c *suite.C) {
		c.BusyWorker()
		var jobs []*suite.Job
		for range 120 {
			jobs = append(jobs, c.Run(suite.Echo()))
		}
		c.Post("/purge-queue", nil).Is(200).Equal("removed", len(jobs)).Equal("status", "completed")
		c.Given("OPS-24", func() { expectHealth(c, "jobs.inQueue", 0) })
		for _, i := range []int{0, 1, 24, 25, 26, 49, 50, 51, 98, 99, 100, 101, len(jobs) - 1} { // near likely page sizes
			status := jobs[i].Status().ValueOrNil("status")
			c.Expect(status != suite.InQueue, "a job that no longer waits", "job %d with status %v", i, status)
		}
	}},
	{ID: "OPS-18", Source: "Endpoints B, rule 3", Statement: "/purge-queue doesn't affect running jobs.",
		Allow: suite.Queue, Jobs: 2, WaitTime: 21 * time.Second, Seconds: 20, Run: func(c *suite.C) {
			running := c.Blocker(20 * time.Second)
			c.Run(suite.Echo())
			c.Given("OPS-17", func() { c.Post("/purge-queue", nil).Is(200) })
			running.Status().IfBefore(running.StartedAfter.Add(20*time.Second)).Is(200).Equal("status", suite.InProgress)
			c.Until(running.StartedBefore.Add(21 * time.Second))
			running.Await(suite.Completed)
		}},
	{ID: "OPS-19", Source: "Endpoints B, rule 3", Statement: "/purge-queue doesn't affect results.", Allow: suite.Queue, Jobs: 3, Seconds: 30, Run: func(c *suite.C) {
		nonce := c.Nonce()
		finished := c.RunSync(suite.Echo(suite.M{"nonce": nonce}))
		c.Blocker(30 * time.Second)
		c.Run(suite.Echo())
		c.Post("/purge-queue", nil).Is(200)
		finished.Status().Is(200).Equal("output.nonce", nonce)
	}},
	{ID: "OPS-20", Source: "States and transitions, POST /purge-queue", Statement: "A purged job never runs.",
		Needs: suite.OwnEndpoint | suite.Webhooks, Allow: suite.Queue, Jobs: 3, WaitTime: 3 * time.Second, Seconds: 6, Run: judgePurged(1)},
	{ID: "OPS-20-many", Needs: suite.OwnEndpoint | suite.Webhooks, Allow: suite.Queue, Jobs: 62, Requests: 80, WaitTime: 3 * time.Second, Seconds: 62, Run: judgePurged(60)},
	{ID: "OPS-21", Level: suite.Unspec, Source: "States and transitions, POST /purge-queue", Statement: "The response for a purged job; its status isn't IN_QUEUE.",
		Allow: suite.Queue, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
			c.Blocker(30 * time.Second)
			j := c.Run(suite.Echo())
			c.Given("OPS-17", func() { c.Post("/purge-queue", nil).Is(200) })
			a := j.Status()
			c.Observe("%d, status %v", a.Code, a.ValueOrNil("status"))
			c.Expect(a.ValueOrNil("status") != suite.InQueue, "a job that no longer waits", "status %v", a.ValueOrNil("status"))
		}},
	{ID: "OPS-22", Source: "Purge response", Statement: "A purge of an empty queue removes 0.", Allow: suite.Queue, Run: func(c *suite.C) {
		c.Post("/purge-queue", nil).Is(200).Equal("removed", 0).Equal("status", "completed")
	}},
	{ID: "OPS-23", Source: "Health response", Statement: "/health returns five counts of jobs and two of workers, all integers.", Needs: suite.AnyEndpoint, Run: func(c *suite.C) {
		a := c.Get("/health").Is(200)
		for _, path := range []string{"jobs.completed", "jobs.failed", "jobs.inProgress", "jobs.inQueue", "jobs.retried", "workers.idle", "workers.running"} {
			n := a.Int(path)
			c.Expect(n >= 0, path+": a count", "the count %s = %d", path, n)
		}
	}},
	{ID: "OPS-24", Level: suite.Should, Source: "Health response", Statement: "jobs.inQueue counts the queued jobs.",
		Allow: suite.Queue, Jobs: 4, WaitTime: 10 * time.Second, Seconds: 30, Run: func(c *suite.C) {
			c.Blocker(time.Minute)
			for range 3 {
				c.Run(suite.Echo())
			}
			expectHealth(c, "jobs.inQueue", 3)
			c.Given("OPS-17", func() { c.Post("/purge-queue", nil).Is(200) })
			expectHealth(c, "jobs.inQueue", 0)
		}},
	{ID: "OPS-25", Level: suite.Should, Source: "Health response", Statement: "jobs.inProgress counts the running jobs.",
		Needs: suite.FiveWorkerEndpoint, Allow: suite.Queue, Jobs: 2, WaitTime: 10 * time.Second, Seconds: 60, Run: judgeBusyCount("jobs.inProgress")},
	{ID: "OPS-26", Level: suite.Should, Source: "Health response", Statement: "jobs.completed counts the COMPLETED jobs, jobs.failed the FAILED ones.",
		Allow: suite.Queue, Jobs: 4, WaitTime: 10 * time.Second, Seconds: 4, Run: func(c *suite.C) {
			before := c.Get("/health").Is(200)
			for range 2 {
				c.Run(suite.Fail()).AwaitFailed()
			}
			c.Run(suite.Echo()).AwaitCompleted()
			c.RunSync(suite.Echo()) // a worker runs, so one job suffices
			expectHealth(c, "jobs.completed", before.Int("jobs.completed")+2)
			expectHealth(c, "jobs.failed", before.Int("jobs.failed")+2)
		}},
	{ID: "OPS-27", Level: suite.Unspec, Source: "Health response", Statement: "What jobs.retried counts.",
		Allow: suite.Queue, Jobs: 2, WaitTime: 10 * time.Second, Seconds: 3, Requests: 15, Run: func(c *suite.C) {
			before := c.Get("/health").Is(200).Int("jobs.retried")
			j := c.Run(suite.Fail(suite.M{"times": 1})).Reach(suite.Failed)
			c.Given("JOB-22", func() { j.Retry().Is(200) })
			j.AwaitCompleted()
			retries := c.Get("/health").Is(200).Int("jobs.retried") - before
			c.Run(suite.Crash(suite.M{"times": 1}))
			for range 5 {
				c.Sleep(time.Second)
			}
			c.Observe("/retry counts %d, a worker that died %d", retries, c.Get("/health").Is(200).Int("jobs.retried")-before-retries)
		}},
	{ID: "OPS-28", Level: suite.Should, Source: "Health response", Statement: "workers.running counts the workers that have a job.",
		Needs: suite.FiveWorkerEndpoint, Allow: suite.Queue, Jobs: 2, WaitTime: 10 * time.Second, Seconds: 60, Run: judgeBusyCount("workers.running")},
	{ID: "OPS-29", Level: suite.Unspec, Source: "Endpoints B, rule 5", Statement: "Whether POST /openai/* exists.",
		Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			unknownPath := c.Post("/no-such-operation", suite.Echo())
			a := c.Post("/openai/v1/chat/completions", suite.Echo())
			c.Observe("%d; a path that does not exist: %d", a.Code, unknownPath.Code)
		}},
	{ID: "OPS-30", Level: suite.Unspec, Source: "Endpoints B, rule 5", Statement: "What GET /requests returns.", Needs: suite.AnyEndpoint, Run: func(c *suite.C) {
		a := c.Get("/requests")
		c.Observe("%d with %s", a.Code, a.Shape())
	}},
})

// judgePurged judges that n purged jobs don't run when the worker is free again.
func judgePurged(n int) func(*suite.C) {
	return func(c *suite.C) {
		blocker, box := c.BusyWorker(), c.Box()
		for range n {
			c.Run(suite.Beacon(box, 0, 0))
		}
		c.Post("/purge-queue", nil).Is(200)
		c.Given("JOB-19", func() { blocker.Cancel().Is(200) })
		c.Sleep(3 * time.Second)
		expectNotExecuted(c, box, 0, fmt.Sprintf("%d purged jobs", n))
	}
}

// judgeBusyCount judges a count of /health that each running job increases by 1.
func judgeBusyCount(path string) func(*suite.C) {
	return func(c *suite.C) {
		expectHealth(c, path, 0)
		n := localOrRemote(c, 2, 1) // elsewhere, only one worker may be available
		for range n {
			c.Run(suite.Sleep(time.Minute)).AwaitRunning()
		}
		expectHealth(c, path, int64(n))
	}
}

// expectHealth expects a count of /health. Counts may be a little late.
func expectHealth(c *suite.C, path string, want int64) {
	var a *suite.Answer
	poll(c, 8*time.Second, 2*time.Second, func() bool {
		a = c.Get("/health").Is(200)
		return a.Int(path) == want
	})
	a.Equal(path, want)
}

// runSyncCases judge the section "Endpoints B", POST /runsync.
var runSyncCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "OPS-01", Source: "Limits, /runsync wait", Statement: "By default, /runsync waits for 90,000 ms.", Jobs: 1, Seconds: 100, WaitTime: 100 * time.Second, Run: func(c *suite.C) {
		begin := c.Now()
		p := c.Start("POST", "/runsync", suite.Submission(suite.Sleep(200*time.Second)))
		p.Until(begin.Add(90*time.Second - c.EarlyMargin(2*time.Second)))
		p.ExpectHeld(begin.Add(90 * time.Second))
		p.Until(begin.Add(90*time.Second + c.LateMargin(10*time.Second)))
		cancelRunSync(c, p.Answer())
	}},
	{ID: "OPS-02", Source: "Endpoints B, POST /runsync", Statement: "A wait of 1,000 ms is accepted, and /runsync waits no longer.",
		Jobs: 2, WaitTime: 6 * time.Second, Seconds: 6, Run: func(c *suite.C) {
			c.Run(suite.Echo()).AwaitCompleted() // starts a worker
			begin := c.Now()
			p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(time.Minute)))
			if c.ControlsClock() {
				p.Until(begin.Add(time.Second - c.EarlyMargin(0)))
			} else {
				p.Sleep(500 * time.Millisecond)
			}
			if p.AnsweredWithin(suite.TransitTime) { // the request was refused or not held
				early := begin.Add(900 * time.Millisecond).Sub(p.Answer().Is(200).Received)
				c.Expect(early <= 0, "no answer before the wait of 1 s has passed", "an answer at once")
			}
			p.Until(begin.Add(time.Second + c.Grace()))
			cancelRunSync(c, p.Answer()) // the description leaves the answer open
		}},
	{ID: "OPS-02-elapsed", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 25 * time.Second, Seconds: 40, Run: judgeWait(20 * time.Second)},
	{ID: "OPS-03", Source: "Endpoints B, POST /runsync", Statement: "A wait of 300,000 ms is accepted, and the result of a job that ends earlier is returned.",
		Jobs: 2, WaitTime: 205 * time.Second, Seconds: 200, Run: func(c *suite.C) {
			c.Run(suite.Echo()).AwaitCompleted() // starts a worker
			p := c.Start("POST", "/runsync?wait=300000", suite.Submission(suite.Sleep(200*time.Second, suite.M{"output": "late"})))
			p.Sleep(200*time.Second + c.Grace())
			c.JobOf(p.Answer().Is(200)).Answer.Equal("status", suite.Completed).Equal("output", "late")
		}},
	// Any wait between the limits is applied.
	{ID: "OPS-03-elapsed", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 310 * time.Second, Seconds: 400, Run: judgeWait(5 * time.Minute)},
	{ID: "OPS-04", Level: suite.Should, Source: "Endpoints B, POST /runsync",
		Statement: "A wait that is out of bounds or not an integer is rejected.",
		Live:      suite.LiveLevel{Level: suite.Unspec, Reason: "RunPod doesn't document a wait outside the limits"},
		Needs:     suite.AnyEndpoint, Requests: 9, Allow: suite.Queue, Run: func(c *suite.C) {
			requireDistinctErrors(c)
			for _, wait := range []string{"999", "300001", "0", "-1", "abc", "1500.5"} {
				submit(c, "/runsync?wait="+wait, suite.Submission(suite.Echo())).BadRequest()
			}
		}},
	{ID: "OPS-05", Level: suite.Unspec, Source: "Endpoints B, rule 6", Statement: "What /runsync returns if the job isn't finished when the wait ends.",
		Jobs: 1, Seconds: 5, WaitTime: 5 * time.Second, Run: func(c *suite.C) {
			p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(time.Minute)))
			p.Sleep(time.Second + c.Grace())
			a := p.Answer()
			c.Observe("%d with %s", a.Code, a.Shape())
			cancelRunSync(c, a)
		}},
	{ID: "OPS-06", Level: suite.Should, Source: "Endpoints B, rule 6", Statement: "A job continues when the wait ends.",
		Needs: suite.OwnEndpoint, Jobs: 2, WaitTime: 22 * time.Second, Seconds: 8, Run: func(c *suite.C) {
			c.Run(suite.Echo()).AwaitCompleted() // starts a worker
			c.Given("OPS-26", func() { expectHealth(c, "jobs.completed", 1) })
			p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(8*time.Second, suite.M{"output": "went on"})))
			p.Sleep(time.Second + c.Grace())
			a := p.Answer()
			if a.ValueOrNil("id") == nil { // the answer may have no id
				c.Sleep(8 * time.Second)
				c.Given("OPS-26", func() { expectHealth(c, "jobs.completed", 2) })
				return
			}
			j := c.JobOf(a)
			j.Status().Is(200)
			c.Sleep(8 * time.Second)
			j.Await(suite.Completed).Equal("output", "went on")
		}},
	// A job that is still queued after the wait remains in the queue and runs.
	{ID: "OPS-06-queued", Supplementary: true, Needs: suite.OwnEndpoint | suite.Webhooks | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 30 * time.Second, Seconds: 22, Run: func(c *suite.C) {
		c.Blocker(20 * time.Second)
		box := c.Box()
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Beacon(box, 0, 0)))
		c.Sleep(time.Second + c.Grace())
		p.Answer()
		c.Expect(len(box.Calls()) == 0, "a job that waits", "%d executions", len(box.Calls()))
		c.Sleep(20*time.Second + c.Grace())
		calls := c.Calls(box, 1)
		c.Expect(len(calls) == 1, "one execution", "%d executions", len(calls))
	}},
	{ID: "OPS-07", Source: "Endpoints B, POST /runsync", Statement: "/runsync returns when the job ends, not when the wait does.",
		Jobs: 2, WaitTime: 5 * time.Second, Seconds: 3, Run: func(c *suite.C) {
			c.Run(suite.Echo()).AwaitCompleted() // starts a worker
			begin := c.Now()
			p := c.Start("POST", "/runsync?wait=300000", suite.Submission(suite.Sleep(2*time.Second)))
			p.Until(begin.Add(2*time.Second + c.LateMargin(10*time.Second)))
			a := p.Answer().Is(200)
			c.JobOf(a)
			a.Equal("status", suite.Completed)
		}},
	// /runsync answers as soon as a job fails or times out.
	{ID: "OPS-07-timed-out", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 22 * time.Second, Seconds: 12, Run: func(c *suite.C) {
		expectAnswerAtEnd(c, suite.TimedOut, suite.Submission(suite.Sleep(time.Hour), suite.ExecutionTimeout(10*time.Second)))
	}},
	{ID: "OPS-07-failed", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 60, Jobs: 2, WaitTime: 22 * time.Second, Seconds: 12, Run: func(c *suite.C) {
		expectAnswerAtEnd(c, suite.Failed, suite.Submission(suite.Stream(1, 10*time.Second, suite.M{"message": "failed"})))
	}},
})

// outlastWait submits a job with /runsync that is not finished when its wait ends. It skips
// the case if the answer has no id, which the description leaves open.
func outlastWait(c *suite.C, input any) (j *suite.Job, submitted interval) {
	begin := c.Now()
	p := c.Start("POST", "/runsync?wait=1000", suite.Submission(input))
	c.Sleep(time.Second + c.Grace())
	a := p.Answer()
	id := a.ValueOrNil("id")
	c.SkipIf(a.Code != 200 || id == nil || id == "", "the answer after the wait has no job id")
	return c.JobOf(a), interval{begin, begin}
}

// cancelRunSync cancels the job of a /runsync whose wait has ended, if the answer has the job's id. The
// description leaves open whether it does.
func cancelRunSync(c *suite.C, a *suite.Answer) {
	if a.ValueOrNil("id") != nil {
		c.JobOf(a).Cancel()
	}
}

// expectAnswerAtEnd expects that /runsync answers when a job fails or times out, after ten seconds.
func expectAnswerAtEnd(c *suite.C, status string, submission suite.M) {
	c.Run(suite.Echo()).AwaitCompleted() // starts a worker
	begin := c.Now()
	p := c.Start("POST", "/runsync?wait=300000", submission)
	due := begin.Add(10 * time.Second)
	p.Until(due.Add(-c.EarlyMargin(2 * time.Second)))
	p.ExpectHeld(due)
	if status == suite.TimedOut {
		c.JudgeBy(due, func() {
			c.Expect(p.AnsweredWithin(500*time.Millisecond), "an answer when the job has ended", "no answer")
		})
	}
	c.Until(due.Add(c.LateMargin(10 * time.Second)))
	a := p.Answer().Is(200).Equal("status", status)
	c.JobOf(a)
}

// judgeWait judges that a wait lasts as long as requested, for a queued and for a running job.
func judgeWait(wait time.Duration) func(*suite.C) {
	return func(c *suite.C) {
		begin := c.Now()
		path := "/runsync?wait=" + strconv.FormatInt(wait.Milliseconds(), 10)
		submission := suite.Submission(suite.Sleep(2 * wait))
		running, queued := c.Start("POST", path, submission), c.Start("POST", path, submission)
		c.Until(begin.Add(wait - c.EarlyMargin(2*time.Second)))
		running.ExpectHeld(begin.Add(wait))
		queued.ExpectHeld(begin.Add(wait))
		c.Until(begin.Add(wait + c.LateMargin(10*time.Second)))
		running.Answer()
		queued.Answer()
	}
}
