package cases

import (
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// The table of states and transitions.
var jobTransitions = []suite.Case{
	{ID: "JOB-15", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Takes: 6 * time.Second, Seconds: 10, Run: func(c *suite.C) {
		blocker := c.Blocker(5 * time.Second)
		j := c.Run(suite.Sleep(time.Minute))
		c.Given("JOB-02", func() {
			j.Status().Before(blocker.StartedAfter.Add(5*time.Second)).Is(200).Equal("status", suite.InQueue)
		})
		c.Sleep(6 * time.Second)
		j.Await(suite.InProgress)
	}},
	{ID: "JOB-16", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: 3 * time.Second, Seconds: 1, Run: func(c *suite.C) {
		box := c.Box()
		c.Run(suite.Beacon(box, 0, 0)).Await(suite.Completed)
		c.Sleep(3 * time.Second)
		calls := c.Calls(box, 1)
		c.Expect(len(calls) == 1, "one execution", "%d executions", len(calls))
	}},
	{ID: "JOB-18", Needs: suite.Own | suite.Hooks, Allow: suite.Queue, Jobs: 3, Takes: 8 * time.Second, Seconds: 6, Run: func(c *suite.C) {
		c.Blocker(5 * time.Second)
		box, control := c.Box(), c.Box()
		j := c.Run(suite.Beacon(box, 0, 0))
		j.InQueue()
		c.Given("JOB-17", func() { j.Cancel().Is(200) })
		c.Sleep(8 * time.Second)
		c.Run(suite.Beacon(control, 0, 0)).Completed()
		c.Given("JOB-16", func() {
			c.Expect(len(c.Calls(control, 1)) > 0, "a beacon of a job that runs", "no call of its handler")
		})
		c.Expect(len(box.Calls()) == 0, "no execution of the cancelled job", "%d executions", len(box.Calls()))
	}},
	{ID: "JOB-19", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 10, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Minute))
		j.Running()
		j.Cancel().Is(200)
		j.Await(suite.Cancelled)
	}},
	{ID: "JOB-21", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		j := c.Run(suite.Echo())
		j.InQueue()
		j.Cancel().Is(200).Equal("id", j.ID).Equal("status", suite.Cancelled)
	}},
	{ID: "JOB-22", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
		j := c.Run(suite.Fail(suite.M{"times": 1}))
		j.Failed()
		j.Retry().Is(200).Equal("id", j.ID).Equal("status", suite.InQueue)
		j.Await(suite.Completed)
	}},
	{ID: "JOB-23", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 7 * time.Second, Seconds: 12, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Minute), suite.ExecutionTimeout(5*time.Second))
		j.Running()
		c.Sleep(7 * time.Second)
		j.TimedOut()
		j.Retry().Is(200).Equal("status", suite.InQueue)
		j.Await(suite.InQueue, suite.InProgress)
	}},
	{ID: "JOB-24", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
		j := c.Run(suite.Fail(suite.M{"times": 1}))
		j.Failed()
		j.Retry().Is(200).Equal("id", j.ID)
		j.Status().Is(200).Equal("id", j.ID)
	}},
	{ID: "JOB-25", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 2, Run: func(c *suite.C) {
		nonce := c.Nonce()
		j := c.Run(suite.Fail(suite.M{"times": 1, "nonce": nonce}))
		j.Failed()
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.Await(suite.Completed).Equal("output.nonce", nonce)
	}},
	{ID: "JOB-26", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 13 * time.Second, Seconds: 24, Run: func(c *suite.C) {
		nonce := c.Nonce()
		j := c.Run(suite.Stream(1, 12*time.Second, suite.M{"output": suite.M{"left": nonce}, "message": "ends " + nonce}))
		j.Running()
		c.Until(j.StartedBefore.Add(12 * time.Second))
		first := j.Failed()
		if !left(first, nonce) {
			c.Skip("a job that FAILED shows nothing of what its handler left")
		}
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		for _, a := range []*suite.Answer{j.Await(suite.InQueue, suite.InProgress), j.Running()} {
			c.Expect(!left(a, nonce), "nothing of what the handler left before", "the body %s", a.Body)
		}
	}},
	{ID: "JOB-27", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		nonce := c.Nonce()
		j := c.RunSync(suite.Echo(suite.M{"nonce": nonce}))
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", suite.Completed).Equal("output.nonce", nonce)
	}},
	{ID: "JOB-28", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		j := c.Run(suite.Echo())
		j.InQueue()
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", suite.InQueue)
	}},
	{ID: "JOB-29", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 30, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(30 * time.Second))
		j.Running()
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", suite.InProgress)
	}},
	{ID: "JOB-30", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		j := c.Run(suite.Echo())
		c.Given("JOB-17", func() {
			j.Cancel().Is(200)
			j.Await(suite.Cancelled)
		})
		j.Retry().Refused()
		j.Status().Is(200).Equal("status", suite.Cancelled)
	}},
	{ID: "JOB-31", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 4, Requests: 40, Takes: 12 * time.Second, Seconds: 10, Run: func(c *suite.C) {
		done, failed := c.Run(suite.Echo()), c.Run(suite.Fail())
		late, stopped := c.Run(suite.Sleep(time.Minute), suite.ExecutionTimeout(5*time.Second)), c.Run(suite.Sleep(time.Minute))
		done.Completed()
		failed.Failed()
		stopped.Running()
		c.Given("JOB-19", func() { stopped.Cancel().Is(200) })
		c.Sleep(7 * time.Second)
		late.TimedOut()
		for range 5 {
			c.Sleep(time.Second)
			done.Status().Is(200).Equal("status", suite.Completed)
			failed.Status().Is(200).Equal("status", suite.Failed)
			late.Status().Is(200).Equal("status", suite.TimedOut)
			stopped.Status().Is(200).Equal("status", suite.Cancelled)
		}
	}},
	{ID: "JOB-32", Needs: suite.Own, Allow: suite.Queue, Jobs: 4, Requests: 30, Takes: 6 * time.Second, Seconds: 10, Watch: follows, Run: func(c *suite.C) {
		stopped := c.Run(suite.Sleep(3 * time.Second))
		stopped.Running()
		waited := c.Run(suite.Echo())
		c.Given("JOB-17", func() { waited.Cancel().Is(200) })
		c.Given("JOB-19", func() { stopped.Cancel().Is(200) })
		failed := c.Run(suite.Fail(suite.M{"times": 1}))
		failed.Failed()
		c.Given("JOB-22", func() { failed.Retry().Is(200) })
		failed.Completed()
		for range 5 {
			c.Sleep(time.Second)
			for _, j := range []*suite.Job{stopped, waited, failed} {
				j.Status().Is(200)
			}
		}
	}},
	{ID: "JOB-33", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 8 * time.Second, Seconds: 5, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(5 * time.Second))
		j.Running()
		c.Given("JOB-19", func() { c.Before(j.Cancel().Is(200), j.StartedAfter.Add(5*time.Second)) })
		c.Sleep(8 * time.Second)
		j.Status().Is(200).Equal("status", suite.Cancelled)
	}},
	{ID: "JOB-34", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		j := c.RunSync(suite.Echo())
		a := j.Cancel()
		status, _ := a.Find("status")
		c.Observe("%d, status %v", a.Code, status)
		c.Should(func() { j.Status().Is(200).Equal("status", suite.Completed) })
	}},
	{ID: "JOB-35", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Echo())
		c.Observe("a handler that returns: %s", j.Await(suite.Completed, suite.Failed).Str("status"))
		c.Should(func() { j.Status().Is(200).Equal("status", suite.Completed) })
	}},
	{ID: "JOB-36", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Seconds: 1, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // not everything fails
		c.Run(suite.Fail()).Await(suite.Failed)
	}},
	{ID: "JOB-37", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Run(suite.M{"op": "no such op"}).Await(suite.Failed)
	}},
	{ID: "JOB-38", Needs: suite.Own, Allow: suite.Queue, Jobs: 1, Takes: 5 * time.Second, Seconds: 5, Run: func(c *suite.C) {
		j := c.Run(suite.Crash())
		for range 5 { // it may be tried again and again
			c.Sleep(time.Second)
		}
		a := j.Status()
		status, _ := a.Find("status")
		retries, _ := a.Find("retries")
		c.Observe("%v, retries %v", status, retries)
	}},
	{ID: "JOB-39", Needs: suite.Own, Allow: suite.Queue, Jobs: 1, Takes: 100 * time.Second, Seconds: 5, Run: func(c *suite.C) {
		c.Crashes()
		p := c.Start("POST", "/runsync", suite.Submission(suite.Crash()))
		p.Sleep(100 * time.Second)
		a := p.Answer()
		status, _ := a.Find("status")
		c.Observe("%d, status %v", a.Code, status)
	}},
}

// left tells whether an answer shows something that a handler left: anywhere but
// in the input, which it may show as well.
func left(a *suite.Answer, nonce string) bool {
	for name, value := range a.Object("") {
		if name != "input" && strings.Contains(suite.Text(value), nonce) {
			return true
		}
	}
	return false
}

// follows tells whether a status may come after the last one that was seen.
// What happened in between may not have been seen; what is over stays.
func follows(w *suite.Watched) string {
	switch {
	case w.Status == "" || w.Last == "" || !suite.Over(w.Last) || w.Status == w.Last:
		return ""
	case w.Retried && slices.Contains([]string{suite.Failed, suite.TimedOut}, w.Last):
		return ""
	}
	return w.Status + " after " + w.Last
}
