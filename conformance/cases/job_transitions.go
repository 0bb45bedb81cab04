package cases

import (
	"slices"
	"time"

	. "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite" //nolint:revive,staticcheck // a case reads like the contract
)

// The table of states and transitions.
var jobTransitions = []Case{
	{ID: "JOB-15", Needs: Own, Allow: Queue, Jobs: 2, Takes: 6 * time.Second, Seconds: 10, Run: func(c *C) {
		c.Blocker(5 * time.Second)
		j := c.Run(Sleep(5 * time.Second))
		c.Given("JOB-02", func() { j.Status().Is(200).Equal("status", InQueue) })
		c.Sleep(6 * time.Second)
		j.Await(InProgress)
	}},
	{ID: "JOB-16", Needs: Endpoint | Hooks, Allow: Queue, Jobs: 1, Takes: 3 * time.Second, Seconds: 1, Run: func(c *C) {
		box := c.Box()
		c.Run(Beacon(box, 0, 0)).Await(Completed)
		c.Sleep(3 * time.Second)
		calls := c.Calls(box, 1)
		c.Expect(len(calls) == 1, "one execution", "%d executions", len(calls))
	}},
	{ID: "JOB-18", Needs: Own | Hooks, Allow: Queue, Jobs: 3, Takes: 8 * time.Second, Seconds: 6, Run: func(c *C) {
		c.Blocker(5 * time.Second)
		box, control := c.Box(), c.Box()
		j := c.Run(Beacon(box, 0, 0))
		j.InQueue()
		c.Given("JOB-17", func() { j.Cancel().Is(200) })
		c.Sleep(8 * time.Second)
		c.Run(Beacon(control, 0, 0)).Completed()
		c.Given("JOB-16", func() { c.Expect(len(c.Calls(control, 1)) > 0, "a beacon of a job that runs", "none") })
		c.Expect(len(box.Calls()) == 0, "no execution of the cancelled job", "%d executions", len(box.Calls()))
	}},
	{ID: "JOB-19", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 10, Run: func(c *C) {
		j := c.Run(Sleep(time.Minute))
		j.Running()
		j.Cancel().Is(200)
		j.Status().Is(200).Equal("status", Cancelled)
	}},
	{ID: "JOB-21", Needs: Own, Allow: Queue, Jobs: 2, Seconds: 30, Run: func(c *C) {
		c.Blocker(30 * time.Second)
		j := c.Run(Echo())
		j.InQueue()
		j.Cancel().Is(200).Equal("id", j.ID).Equal("status", Cancelled)
	}},
	{ID: "JOB-22", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 2, Run: func(c *C) {
		j := c.Run(Fail(M{"times": 1}))
		j.Failed()
		j.Retry().Is(200).Equal("id", j.ID).Equal("status", InQueue)
		j.Await(Completed)
	}},
	{ID: "JOB-23", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 7 * time.Second, Seconds: 12, Run: func(c *C) {
		j := c.Run(Sleep(time.Minute), ExecutionTimeout(5*time.Second))
		j.Running()
		c.Sleep(7 * time.Second)
		j.TimedOut()
		j.Retry().Is(200).Equal("status", InQueue)
		j.Await(InQueue, InProgress)
	}},
	{ID: "JOB-24", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 2, Run: func(c *C) {
		j := c.Run(Fail(M{"times": 1}))
		j.Failed()
		j.Retry().Is(200).Equal("id", j.ID)
		j.Status().Is(200).Equal("id", j.ID)
	}},
	{ID: "JOB-25", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 2, Run: func(c *C) {
		nonce := c.Nonce()
		j := c.Run(Fail(M{"times": 1, "nonce": nonce}))
		j.Failed()
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.Await(Completed, Failed).Equal("output.nonce", nonce)
	}},
	{ID: "JOB-26", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 4 * time.Second, Seconds: 6, Run: func(c *C) {
		nonce := c.Nonce()
		j := c.Run(Stream(1, 3*time.Second, M{"output": M{"left": nonce}, "message": "ends " + nonce}))
		j.Running()
		c.Sleep(4 * time.Second)
		first := j.Failed()
		c.Expect(first.Shows(nonce), "what the handler left", "%s", first.Body)
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.Await(InQueue, InProgress).Lacks(nonce)
		j.Running().Lacks(nonce)
	}},
	{ID: "JOB-27", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		nonce := c.Nonce()
		j := c.RunSync(Echo(M{"nonce": nonce}))
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", Completed).Equal("output.nonce", nonce)
	}},
	{ID: "JOB-28", Needs: Own, Allow: Queue, Jobs: 2, Seconds: 30, Run: func(c *C) {
		c.Blocker(30 * time.Second)
		j := c.Run(Echo())
		j.InQueue()
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", InQueue)
	}},
	{ID: "JOB-29", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 30, Run: func(c *C) {
		j := c.Run(Sleep(30 * time.Second))
		j.Running()
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", InProgress)
	}},
	{ID: "JOB-30", Needs: Own, Allow: Queue, Jobs: 2, Seconds: 30, Run: func(c *C) {
		c.Blocker(30 * time.Second)
		j := c.Run(Echo())
		c.Given("JOB-17", func() {
			j.Cancel().Is(200)
			j.Status().Is(200).Equal("status", Cancelled)
		})
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", Cancelled)
	}},
	{ID: "JOB-31", Needs: Endpoint, Allow: Queue, Jobs: 4, Requests: 40, Takes: 12 * time.Second, Seconds: 10, Run: func(c *C) {
		done, failed := c.Run(Echo()), c.Run(Fail())
		late, stopped := c.Run(Sleep(time.Minute), ExecutionTimeout(5*time.Second)), c.Run(Sleep(time.Minute))
		done.Completed()
		failed.Failed()
		stopped.Running()
		c.Given("JOB-19", func() { stopped.Cancel().Is(200) })
		c.Sleep(7 * time.Second)
		late.TimedOut()
		for range 5 {
			c.Sleep(time.Second)
			done.Status().Is(200).Equal("status", Completed)
			failed.Status().Is(200).Equal("status", Failed)
			late.Status().Is(200).Equal("status", TimedOut)
			stopped.Status().Is(200).Equal("status", Cancelled)
		}
	}},
	{ID: "JOB-32", Needs: Own, Allow: Queue, Jobs: 4, Requests: 30, Takes: 6 * time.Second, Seconds: 10, Watch: follows, Run: func(c *C) {
		stopped := c.Run(Sleep(3 * time.Second))
		stopped.Running()
		waited := c.Run(Echo())
		c.Given("JOB-17", func() { waited.Cancel().Is(200) })
		c.Given("JOB-19", func() { stopped.Cancel().Is(200) })
		failed := c.Run(Fail(M{"times": 1}))
		failed.Failed()
		c.Given("JOB-22", func() { failed.Retry().Is(200) })
		failed.Completed()
		for range 5 {
			c.Sleep(time.Second)
			for _, j := range []*Job{stopped, waited, failed} {
				j.Status().Is(200)
			}
		}
	}},
	{ID: "JOB-33", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 8 * time.Second, Seconds: 5, Run: func(c *C) {
		j := c.Run(Sleep(5 * time.Second))
		j.Running()
		c.Given("JOB-19", func() { j.Cancel().Is(200) })
		c.Sleep(8 * time.Second)
		j.Status().Is(200).Equal("status", Cancelled)
	}},
	{ID: "JOB-34", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		j := c.RunSync(Echo())
		a := j.Cancel()
		status, _ := a.Find("status")
		c.Observe("%d, status %v", a.Code, status)
		c.Should(func() { j.Status().Is(200).Equal("status", Completed) })
	}},
	{ID: "JOB-35", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		j := c.Run(Echo())
		c.Observe("a handler that returns: %s", j.Await(Completed, Failed).Str("status"))
		c.Should(func() { j.Status().Is(200).Equal("status", Completed) })
	}},
	{ID: "JOB-36", Needs: Endpoint, Allow: Queue, Jobs: 2, Seconds: 1, Run: func(c *C) {
		c.Run(Echo()).Completed() // not everything fails
		c.Run(Fail()).Await(Failed)
	}},
	{ID: "JOB-37", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.Run(M{"op": "no such op"}).Await(Failed)
	}},
	{ID: "JOB-38", Needs: Own, Allow: Queue, Jobs: 1, Takes: 5 * time.Second, Seconds: 5, Run: func(c *C) {
		a := c.Run(Crash()).Await(Failed, Completed, TimedOut)
		retries, _ := a.Find("retries")
		c.Observe("%s, retries %v", a.Str("status"), retries)
	}},
	{ID: "JOB-39", Needs: Own, Allow: Queue, Jobs: 1, Takes: 100 * time.Second, Seconds: 5, Run: func(c *C) {
		p := c.Start("POST", "/runsync", Submission(Crash()))
		for i := 0; i < 10 && p.Open(); i++ {
			c.Sleep(10 * time.Second)
		}
		a := p.Answer()
		status, _ := a.Find("status")
		a.JSON()
		c.Observe("%d, status %v", a.Code, status)
	}},
}

// follows tells whether a status may come after the last one that was seen.
// What happened in between may not have been seen; what is over stays.
func follows(w *Watched) string {
	switch {
	case w.Status == "" || w.Last == "" || !Over(w.Last) || w.Status == w.Last:
		return ""
	case w.Retried && slices.Contains([]string{Failed, TimedOut}, w.Last):
		return ""
	}
	return w.Status + " after " + w.Last
}
