package cases

import (
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// transitionCases judge the states of jobs and their transitions, except /retry and elapsed times.
var transitionCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "JOB-11", Source: "States and transitions, POST /run", Statement: "POST /run returns the id and IN_QUEUE, even if a worker is idle.",
		Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
			c.RunSync(suite.Echo()) // starts a worker
			a := c.Post("/run", suite.Submission(suite.Echo())).Is(200).Equal("status", suite.InQueue)
			c.JobOf(a).Await(suite.Completed)
		}},
	{ID: "JOB-12", Source: "States and transitions, POST /run", Statement: "POST /run returns before the job ends, however long it runs.",
		Jobs: 1, Seconds: 10, Run: func(c *suite.C) {
			a := c.Post("/run", suite.Submission(suite.Sleep(30*time.Second))).Is(200)
			c.JobOf(a)
			took := a.Received.Sub(a.Sent)
			c.Expect(took < 10*time.Second, "an answer long before the job's 30 s", "an answer after %s", took)
		}},
	{ID: "JOB-13", Source: "States and transitions, POST /runsync", Statement: "POST /runsync waits until the job ends.",
		Jobs: 2, WaitTime: 4 * time.Second, Seconds: 4, Run: func(c *suite.C) {
			c.Run(suite.Echo()).AwaitCompleted() // starts a worker
			begin := c.Now()
			p := c.Start("POST", "/runsync", suite.Submission(suite.Sleep(3*time.Second)))
			p.Until(begin.Add(2 * time.Second))
			p.ExpectHeld(begin.Add(3 * time.Second))
			p.Sleep(2 * time.Second)
			p.Answer().Is(200).Equal("status", suite.Completed)
		}},
	{ID: "JOB-15", Source: "States and transitions, IN_QUEUE", Statement: "A queued job becomes IN_PROGRESS when a worker is available.",
		Needs: suite.OwnEndpoint, Jobs: 2, WaitTime: 16 * time.Second, Seconds: 20, Run: func(c *suite.C) {
			blocker := c.Blocker(15 * time.Second)
			j := c.Run(suite.Sleep(time.Minute))
			c.Given("JOB-02", func() {
				j.Status().IfBefore(blocker.StartedAfter.Add(15*time.Second)).Is(200).Equal("status", suite.InQueue)
			})
			c.Until(blocker.StartedBefore.Add(16 * time.Second))
			j.Await(suite.InProgress)
		}},
	{ID: "JOB-16", Source: "States and transitions, IN_QUEUE", Statement: "The handler gets the job. If it succeeds, it doesn't get the job again.",
		Needs: suite.AnyEndpoint | suite.Webhooks, Jobs: 1, WaitTime: 3 * time.Second, Seconds: 1, Run: func(c *suite.C) {
			box := c.Box()
			c.Run(suite.Beacon(box, 0, 0)).Await(suite.Completed)
			c.Sleep(3 * time.Second)
			calls := c.Calls(box, 1)
			c.Expect(len(calls) == 1, "one execution", "%d executions", len(calls))
		}},
	{ID: "JOB-17", Source: "States and transitions, POST /cancel", Statement: "A queued job becomes CANCELLED when it is cancelled.",
		Needs: suite.OwnEndpoint, Jobs: 5, Requests: 30, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
			others := newScene(c)
			job := c.Run(suite.Echo()).Reach(suite.InQueue)
			job.Cancel().Is(200)
			job.Await(suite.Cancelled)
			others.expectUnchanged()
		}},
	{ID: "JOB-18", Source: "States and transitions, POST /cancel", Statement: "A job that is cancelled in the queue never starts.",
		Needs: suite.OwnEndpoint | suite.Webhooks, Jobs: 3, WaitTime: 23 * time.Second, Seconds: 21, Run: func(c *suite.C) {
			blocker, box := c.Blocker(20*time.Second), c.Box()
			j := c.Run(suite.Beacon(box, 0, 0)).Reach(suite.InQueue)
			c.Given("JOB-17", func() { c.ExpectBefore(j.Cancel().Is(200), blocker.StartedAfter.Add(20*time.Second)) })
			c.Until(blocker.StartedBefore.Add(23 * time.Second))
			expectNotExecuted(c, box, 0, "the cancelled job")
		}},
	{ID: "JOB-19", Source: "States and transitions, POST /cancel", Statement: "A running job becomes CANCELLED when it is cancelled.", Jobs: 1, Seconds: 10, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Minute)).Reach(suite.InProgress)
		j.Cancel().Is(200)
		j.Await(suite.Cancelled)
	}},
	{ID: "JOB-20", Source: "States and transitions, POST /cancel", Statement: "The execution of a cancelled job stops.",
		Needs: suite.OwnEndpoint | suite.Webhooks, Jobs: 1, Seconds: 40, WaitTime: 40 * time.Second, Run: func(c *suite.C) {
			ticks := c.Box()
			job := c.Run(suite.Beacon(ticks, time.Second, 10*time.Minute)).Reach(suite.InProgress)
			c.Given("JOB-16", func() {
				c.Calls(ticks, 1)
				c.Sleep(2 * time.Second)
				n := len(c.Calls(ticks, 2))
				c.Expect(n >= 2, "a call each second from the handler", "%d calls", n)
			})
			c.Given("JOB-19", func() { job.Cancel().Is(200) })
			c.Sleep(10 * time.Second) // time to stop the handler
			earlierCalls := len(ticks.Calls())
			c.Sleep(20 * time.Second)
			laterCalls := len(ticks.Calls()) - earlierCalls
			c.Expect(laterCalls == 0, "no call of the handler later than 10 s after the cancellation", "%d calls in the 20 s after that", laterCalls)
		}},
	{ID: "JOB-21", Source: "Endpoints B, POST /cancel", Statement: "POST /cancel returns the id and CANCELLED.",
		Needs: suite.OwnEndpoint, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
			blocker := c.Blocker(10 * time.Minute)
			for _, j := range []*suite.Job{c.Run(suite.Echo()).Reach(suite.InQueue), blocker} {
				j.Cancel().Is(200).Equal("id", j.ID).Equal("status", suite.Cancelled)
			}
		}},
	{ID: "JOB-31", Level: suite.Should, Source: "States and transitions", Statement: "A finished job doesn't change unless it is retried.",
		Jobs: 4, Requests: 40, WaitTime: 12 * time.Second, Seconds: 10, Run: func(c *suite.C) {
			completed, failed := c.Run(suite.Echo()), c.Run(suite.Fail())
			timedOut, cancelled := c.Run(suite.Sleep(time.Minute), suite.ExecutionTimeout(5*time.Second)), c.Run(suite.Sleep(time.Minute))
			completed.AwaitCompleted()
			failed.AwaitFailed()
			cancelled.AwaitRunning()
			c.Given("JOB-19", func() { cancelled.Cancel().Is(200) })
			c.Sleep(7 * time.Second)
			timedOut.AwaitTimedOut()
			for range 5 {
				c.Sleep(time.Second)
				completed.Status().Is(200).Equal("status", suite.Completed)
				failed.Status().Is(200).Equal("status", suite.Failed)
				timedOut.Status().Is(200).Equal("status", suite.TimedOut)
				cancelled.Status().Is(200).Equal("status", suite.Cancelled)
			}
		}},
	{ID: "JOB-32", Source: "States and transitions", Statement: "The sequence of a job's statuses follows the table of transitions.",
		Needs: suite.OwnEndpoint, Jobs: 4, Requests: 30, WaitTime: 26 * time.Second, Seconds: 24, Watch: judgeTransition, Run: func(c *suite.C) {
			cancelledRunning := c.Run(suite.Sleep(20 * time.Second)).Reach(suite.InProgress)
			cancelledQueued := c.Run(suite.Echo())
			c.Given("JOB-17", func() { cancelledQueued.Cancel().Is(200) })
			c.Given("JOB-19", func() { cancelledRunning.Cancel().Is(200) })
			failed := c.Run(suite.Fail(suite.M{"times": 1})).Reach(suite.Failed)
			c.Given("JOB-22", func() { failed.Retry().Is(200) })
			failed.AwaitCompleted()
			c.Until(cancelledRunning.StartedBefore.Add(20 * time.Second)) // when the cancelled run would have ended
			for range 5 {
				c.Sleep(time.Second)
				for _, j := range []*suite.Job{cancelledRunning, cancelledQueued, failed} {
					j.Status().Is(200)
				}
			}
		}},
	{ID: "JOB-33", Level: suite.Should, Source: "States and transitions, POST /cancel", Statement: "A CANCELLED job never becomes COMPLETED.",
		Jobs: 1, WaitTime: 18 * time.Second, Seconds: 15, Run: func(c *suite.C) {
			j := c.Run(suite.Sleep(15 * time.Second)).Reach(suite.InProgress)
			c.Given("JOB-19", func() { c.ExpectBefore(j.Cancel().Is(200), j.StartedAfter.Add(15*time.Second)) })
			c.Until(j.StartedBefore.Add(18 * time.Second))
			j.Status().Is(200).Equal("status", suite.Cancelled)
		}},
	{ID: "JOB-34", Level: suite.Unspec, Source: "States and transitions", Statement: "What /cancel returns for a finished job; the job doesn't change.",
		Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			j := c.RunSync(suite.Echo())
			a := j.Cancel()
			c.Observe("%d, status %v", a.Code, a.ValueOrNil("status"))
			c.Should(func() { j.Status().Is(200).Equal("status", suite.Completed) })
		}},
	{ID: "JOB-35", Level: suite.Unspec, Source: "States and transitions", Statement: "The status of a job whose handler succeeds; it should be COMPLETED.",
		Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			j := c.Run(suite.Echo())
			c.Observe("a handler that returns: %s", j.Await(suite.Completed, suite.Failed).Str("status"))
			c.Should(func() { j.Status().Is(200).Equal("status", suite.Completed) })
		}},
	{ID: "JOB-36", Source: "Errors, Failed job", Statement: "A job becomes FAILED if its handler raises an error.", Jobs: 2, Seconds: 1, Run: func(c *suite.C) {
		c.Run(suite.Echo()).AwaitCompleted() // jobs can succeed
		c.Run(suite.Fail()).Await(suite.Failed)
	}},
	{ID: "JOB-37", Source: "Errors, Failed job", Statement: "A job becomes FAILED if its handler rejects the input.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Run(suite.M{"op": "no such op"}).Await(suite.Failed)
	}},
	{ID: "JOB-38", Level: suite.Unspec, Source: "What the service does, 4", Statement: "How often a job is dispatched if its workers die.",
		Needs: suite.OwnEndpoint, Jobs: 1, WaitTime: 5 * time.Second, Seconds: 5, Run: func(c *suite.C) {
			j := c.Run(suite.Crash())
			for range 5 { // it may be retried several times
				c.Sleep(time.Second)
			}
			a := j.Status()
			c.Observe("%v, retries %v", a.ValueOrNil("status"), a.ValueOrNil("retries"))
		}},
	{ID: "JOB-39", Level: suite.Unspec, Source: "Errors, 500", Statement: "What /runsync returns if the worker crashes.",
		Needs: suite.OwnEndpoint, Jobs: 1, WaitTime: 100 * time.Second, Seconds: 5, Run: func(c *suite.C) {
			c.AllowCrash()
			p := c.Start("POST", "/runsync", suite.Submission(suite.Crash()))
			p.Sleep(100 * time.Second)
			a := p.Answer()
			c.Observe("%d, status %v", a.Code, a.ValueOrNil("status"))
		}},
})

// expectNotExecuted expects that a job's handler hasn't called its box since the earlier calls. It
// runs another job first, to show that handlers call their boxes.
func expectNotExecuted(c *suite.C, box *env.Box, earlierCalls int, job string) {
	control := c.Box()
	c.Run(suite.Beacon(control, 0, 0)).AwaitCompleted()
	c.Given("JOB-16", func() {
		c.Expect(len(c.Calls(control, 1)) > 0, "a call of the other job's handler", "no call of its handler")
	})
	n := len(box.Calls()) - earlierCalls
	c.Expect(n == 0, "no execution of "+job, "%d executions", n)
}

// showsHandlerOutput reports whether a member of an answer contains the nonce of a handler's output, although it
// didn't in the answer before the output. Other members, such as the input, may always contain the nonce.
func showsHandlerOutput(a, before *suite.Answer, nonce string) bool {
	for name, value := range a.Object("") {
		if strings.Contains(suite.JSONText(value), nonce) && !strings.Contains(suite.JSONText(before.ValueOrNil(name)), nonce) {
			return true
		}
	}
	return false
}

// judgeTransition judges whether a status may follow the previous one. Statuses in between
// may have been missed, but only a retry changes a final status.
func judgeTransition(w *suite.WatchedExchange) string {
	switch {
	case w.Status == "" || w.PreviousStatus == "" || !suite.IsFinal(w.PreviousStatus) || w.Status == w.PreviousStatus:
		return ""
	case w.RetriedSince && slices.Contains([]string{suite.Failed, suite.TimedOut}, w.PreviousStatus):
		return ""
	}
	return w.Status + " after " + w.PreviousStatus
}

// retryCases judge the section "States and transitions", POST /retry, and rule 2 of "Endpoints B".
var retryCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "JOB-22", Source: "States and transitions, POST /retry", Statement: "/retry puts a FAILED job back IN_QUEUE and returns id and status.",
		Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
			j := c.Run(suite.Fail(suite.M{"times": 1})).Reach(suite.Failed)
			j.Retry().Is(200).Equal("id", j.ID).Equal("status", suite.InQueue)
			j.Await(suite.Completed)
		}},
	{ID: "JOB-22-one", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 3, Requests: 25, Seconds: 30, Run: func(c *suite.C) {
		first, second := c.Run(suite.Fail()), c.Run(suite.Fail())
		first.AwaitFailed()
		second.AwaitFailed()
		c.Blocker(time.Minute)
		first.Retry().Is(200)
		second.Status().Is(200).Equal("status", suite.Failed)
		c.Post("/purge-queue", nil).Is(200).Equal("removed", 1)
	}},
	{ID: "JOB-23", Source: "States and transitions, POST /retry", Statement: "/retry puts a TIMED_OUT job back IN_QUEUE.",
		Jobs: 1, WaitTime: 7 * time.Second, Seconds: 12, Run: func(c *suite.C) {
			j := c.Run(suite.Sleep(time.Minute), suite.ExecutionTimeout(5*time.Second)).Reach(suite.InProgress)
			c.Sleep(7 * time.Second)
			j.AwaitTimedOut()
			j.Retry().Is(200).Equal("status", suite.InQueue)
			j.Await(suite.InQueue, suite.InProgress)
		}},
	{ID: "JOB-24", Source: "Endpoints B, rule 2", Statement: "A retried job keeps its id.", Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
		j := c.Run(suite.Fail(suite.M{"times": 1})).Reach(suite.Failed)
		j.Retry().Is(200).Equal("id", j.ID)
		j.Status().Is(200).Equal("id", j.ID)
	}},
	{ID: "JOB-25", Source: "Endpoints B, rule 2", Statement: "A retried job runs with its original input.", Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
		nonce := c.Nonce()
		j := c.Run(suite.Fail(suite.M{"times": 1, "nonce": nonce})).Reach(suite.Failed)
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.Await(suite.Completed).Equal("output.nonce", nonce)
	}},
	{ID: "JOB-25-data", Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 3, Seconds: 6, Requests: 45, Run: func(c *suite.C) {
		g := generator{c.Random()}
		for i, text := range []string{"", g.longText(10_000), g.longText(300_000)} {
			if i == 2 && !c.IncludeIfLocal("an input of a megabyte") {
				break
			}
			input := suite.Fail(echoAll(g), suite.M{"op": "fail", "times": 1, "text": text})
			job := c.JobOf(c.Post("/run", nil, suite.Raw(submissionText(g, input))).Is(200)).Reach(suite.Failed)
			c.Given("JOB-22", func() { job.Retry().Is(200) })
			job.Await(suite.Completed).Equal("output", input)
		}
	}},
	{ID: "JOB-26", Source: "Endpoints B, rule 2", Statement: "A retried job loses its previous output, error and stream.",
		Jobs: 1, WaitTime: 13 * time.Second, Seconds: 24, Run: func(c *suite.C) {
			nonce := c.Nonce()
			j := c.Run(suite.Stream(1, 12*time.Second, suite.M{"output": suite.M{"left": nonce}, "message": "ends " + nonce}))
			running := j.AwaitRunning()
			c.Until(j.StartedBefore.Add(12 * time.Second))
			first := j.AwaitFailed()
			c.SkipIf(!showsHandlerOutput(first, running, nonce), "a FAILED job shows no data of its handler")
			c.Given("JOB-22", func() { j.Retry().Is(200) })
			for _, a := range []*suite.Answer{j.Await(suite.InQueue, suite.InProgress), j.AwaitRunning()} {
				a.Expect(!showsHandlerOutput(a, running, nonce), "no data of the previous run")
			}
		}},
	// A retried job has only the chunks of its last run.
	{ID: "JOB-26-chunks", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 90, Jobs: 2, WaitTime: 70 * time.Second, Seconds: 35, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 5*time.Second, suite.M{"message": "failed"})).Reach(suite.InProgress)
		c.Sleep(15*time.Second + c.Grace())
		j.AwaitFailed()
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.AwaitRunning()
		c.Sleep(15*time.Second + c.Grace())
		j.AwaitFailed()
		chunks := j.Chunks(3)
		c.Expect(len(chunks) == 3, "the 3 chunks of the last run", "%d chunks", len(chunks))
		for i, chunk := range chunks {
			c.Expect(isChunk(chunk, i), "the chunks 0 to 2, each once", "the chunk %s in place of %d", suite.JSONText(chunk), i)
		}
	}},
	{ID: "JOB-26-chunks-queued", Supplementary: true, Needs: suite.OwnEndpoint | suite.AdvanceableClock, Allow: suite.Queue, Requests: 90, Jobs: 2, WaitTime: 2 * time.Minute, Seconds: 60, Run: func(c *suite.C) {
		j := c.Run(suite.Stream(3, 0, suite.M{"message": "failed"})).Reach(suite.Failed)
		c.BusyWorker()
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.AwaitInQueue()
		p := c.Start("GET", j.Path("stream"), nil)
		p.Sleep(30 * time.Second)
		if p.AnsweredWithin(suite.TransitTime) {
			a := p.Answer()
			a.Expect(countChunks(a) == 0, "no chunk of the previous run")
		}
	}},
	{ID: "JOB-27", Source: "Endpoints B, rule 2", Statement: "/retry rejects a COMPLETED job and doesn't change it.", Jobs: 1, Seconds: 1, Run: judgeRefusedRetry("completed")},
	{ID: "JOB-28", Source: "Endpoints B, rule 2", Statement: "/retry rejects a job that is IN_QUEUE.", Needs: suite.OwnEndpoint, Jobs: 2, Seconds: 30, Run: judgeRefusedRetry("queued")},
	{ID: "JOB-29", Source: "Endpoints B, rule 2", Statement: "/retry rejects a job that is IN_PROGRESS.", Jobs: 1, Seconds: 30, Run: judgeRefusedRetry("running")},
	{ID: "JOB-30", Source: "Endpoints B, rule 2", Statement: "/retry rejects a CANCELLED job.", Needs: suite.OwnEndpoint, Jobs: 2, Seconds: 30, Run: judgeRefusedRetry("cancelled-queued")},
})

// judgeRefusedRetry judges that a job in a stage can't be retried.
func judgeRefusedRetry(stageName string) func(*suite.C) {
	return func(c *suite.C) {
		s := stages[slices.IndexFunc(stages, func(s stage) bool { return s.name == stageName })]
		expectRetryRefused(c, s, s.prepare(c, nil))
	}
}

// expectRetryRefused retries a job that can't be retried, and expects a refusal and no change.
func expectRetryRefused(_ *suite.C, s stage, p *stagedJob) {
	before := p.Status().Is(200).Equal("status", s.status)
	p.Retry().Refused()
	expectSameResult(before, p.Status())
}
