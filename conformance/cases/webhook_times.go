package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// webhookTimes are when calls come, and of which ends.
var webhookTimes = []suite.Case{
	// The webhook tells of an end: not before it, and of that after a retry, too.
	{ID: "WEB-01-not-before", Needs: suite.Own | suite.Hooks | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 45 * time.Second, Seconds: 32, Run: func(c *suite.C) {
		box := c.Box()
		blocker := c.Blocker(12 * time.Second)
		j := c.Run(suite.Sleep(20*time.Second), suite.M{"webhook": box.URL})
		c.Until(blocker.StartedBefore.Add(12*time.Second + c.Grace()))
		j.Await(suite.InProgress, suite.Completed)
		calledBetween(c, box, blocker.StartedAfter.Add(32*time.Second), blocker.StartedBefore.Add(32*time.Second))
		j.Completed()
	}},
	{ID: "WEB-01-retried", Needs: suite.Own | suite.Hooks, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 2 * time.Minute, Seconds: 2, Run: func(c *suite.C) {
		box := c.Box()
		j := c.Run(suite.Fail(suite.M{"times": 1}), suite.M{"webhook": box.URL})
		j.Failed()
		c.Sleep(40 * time.Second) // which ends are told is open
		settled(c)
		before := len(box.Calls())
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.Completed()
		calledFirst(c, box, before)
		c.Sleep(40 * time.Second)
		settled(c)
		c.Expect(len(box.Calls()) == before+1, "one call of the second end", "%d calls", len(box.Calls())-before)
	}},
	{ID: "WEB-05-retried", Needs: suite.Own | suite.Hooks | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 1, Takes: 3 * time.Minute, Seconds: 2, Run: func(c *suite.C) {
		box := c.Box(500)
		j := c.Run(suite.Fail(suite.M{"times": 1}), suite.M{"webhook": box.URL})
		j.Failed()
		for range 4 {
			c.Sleep(hookGap + c.Grace()/2)
			settled(c)
		}
		before := len(box.Calls())
		c.Given("JOB-22", func() { j.Retry().Is(200) })
		j.Completed()
		c.Given("WEB-01", func() { calledFirst(c, box, before) })
		for n := 2; n <= 4; n++ {
			c.Sleep(hookGap + c.Grace()/2)
			if n <= 3 {
				c.Calls(box, before+n)
			}
		}
		settled(c)
		n := len(box.Calls()) - before
		c.Expect(n <= 3, "3 calls at most", "%d calls", n)
		c.Should(func() { c.Expect(n == 3, "3 calls", "%d calls", n) })
	}},
	// Nobody has to wait for an end that is told.
	{ID: "WEB-02-elapsed", Needs: suite.Own | suite.Hooks | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: 60 * time.Second, Seconds: 12, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		box, begin := c.Box(), c.Now()
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(10*time.Second), suite.M{"webhook": box.URL}))
		c.Sleep(time.Second + c.Grace())
		p.Answer()
		calledBetween(c, box, begin.Add(10*time.Second), begin.Add(10*time.Second))
		c.Sleep(25 * time.Second)
		settled(c)
		c.Expect(len(box.Calls()) == 1, "one call", "%d calls", len(box.Calls()))
	}},
	// The calls are of an end, and go on when the result is not kept any longer.
	{ID: "WEB-05-short-ttl", Needs: suite.Own | suite.Hooks | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 2, Takes: time.Minute, Seconds: 2, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		box := c.Box(500)
		c.Run(suite.Echo(), suite.M{"webhook": box.URL}, suite.TTL(15*time.Second)).Completed()
		c.Given("WEB-01", func() { called(c, box, 1) })
		for n := 2; n <= 4; n++ {
			c.Sleep(hookGap + c.Grace()/2)
			if n <= 3 {
				c.Calls(box, n)
			}
		}
		settled(c)
		n := len(box.Calls())
		c.Expect(n <= 3, "3 calls at most", "%d calls", n)
	}},
	// Whether a job that never ended is told of, and one that was cancelled while it
	// waited.
	{ID: "WEB-11-without-run", Needs: suite.Own | suite.Hooks | suite.Advanced, Allow: suite.Queue, Requests: 60, Jobs: 5, Takes: time.Minute, Seconds: 30, Run: func(c *suite.C) {
		blocker := c.Blocker(time.Hour)
		late, stopped, purged, deleted := c.Box(), c.Box(), c.Box(), c.Box()
		c.Run(suite.Echo(), suite.M{"webhook": late.URL}, suite.TTL(10*time.Second))
		c.Run(suite.Echo(), suite.M{"webhook": stopped.URL}).Cancel()
		c.Sleep(10*time.Second + c.Grace())
		c.Run(suite.Echo(), suite.M{"webhook": purged.URL})
		c.Given("OPS-17", func() { c.Post("/purge-queue", nil).Is(200) })
		blocker.Cancel()
		j := c.Run(suite.Sleep(time.Minute), suite.M{"webhook": deleted.URL}, suite.TTL(10*time.Second))
		j.Running()
		c.Sleep(20 * time.Second)
		settled(c)
		c.Observe("ttl over while it waits: %d, while it runs: %d, cancelled while it waits: %d, purged: %d", len(late.Calls()), len(deleted.Calls()), len(stopped.Calls()), len(purged.Calls()))
	}},
}

// calledBetween expects the webhook of a job that ends at a time that is known
// from two sides. It stops just before the earliest: while the clock is advanced
// over a time, what is called then has that of the advance's beginning.
func calledBetween(c *suite.C, box *env.Box, earliest, latest time.Time) {
	earliest = earliest.Add(-c.Early(time.Second))
	c.Until(earliest)
	c.Until(latest.Add(c.Grace()))
	early := earliest.Sub(called(c, box, 1).At).Round(time.Millisecond)
	c.Expect(early <= 0, "no call before the job ends", "a call %s before that", early+c.Early(time.Second))
}
