package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// queueCases judge the sections "Purge response" and "Health response".
var queueCases = section(suite.Case{Level: suite.Must, Needs: suite.OwnEndpoint}, []suite.Case{
	{ID: "OPS-17", Source: "Purge response", Statement: "/purge-queue returns the number of removed jobs and the status completed.",
		Allow: suite.Queue, Jobs: 4, Seconds: 30, Run: func(c *suite.C) {
			c.Blocker(30 * time.Second)
			for range 3 {
				c.Run(suite.Echo())
			}
			a := c.Post("/purge-queue", nil).Is(200).Equal("removed", 3).Equal("status", "completed")
			a.Int("removed")
		}},
	{ID: "OPS-17-many", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 121, Requests: 140, Seconds: 30, Run: func(c *suite.C) {
		c.BusyWorker()
		var jobs []*suite.Job
		for range 120 {
			jobs = append(jobs, c.Run(suite.Echo()))
		}
		c.Post("/purge-queue", nil).Is(200).Equal("removed", len(jobs)).Equal("status", "completed")
		expectHealth(c, "jobs.inQueue", 0)
		for _, i := range []int{0, 1, 24, 25, 26, 49, 50, 51, 98, 99, 100, 101, len(jobs) - 1} { // near likely page sizes
			status := jobs[i].Status().Shown("status")
			c.Expect(status != suite.InQueue, "a job that no longer waits", "job %d with status %v", i, status)
		}
	}},
	{ID: "OPS-18", Source: "Endpoints B, rule 3", Statement: "/purge-queue doesn't affect running jobs.",
		Allow: suite.Queue, Jobs: 2, WaitTime: 6 * time.Second, Seconds: 5, Run: func(c *suite.C) {
			running := c.Blocker(5 * time.Second)
			c.Run(suite.Echo())
			c.Given("OPS-17", func() { c.Post("/purge-queue", nil).Is(200) })
			running.Status().Before(running.StartedAfter.Add(5*time.Second)).Is(200).Equal("status", suite.InProgress)
			c.Sleep(6 * time.Second)
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
		Needs: suite.OwnEndpoint | suite.Webhooks, Allow: suite.Queue, Jobs: 3, WaitTime: 7 * time.Second, Seconds: 6, Run: func(c *suite.C) {
			c.Blocker(5 * time.Second)
			box := c.Box()
			c.Run(suite.Beacon(box, 0, 0))
			c.Post("/purge-queue", nil).Is(200)
			c.Sleep(7 * time.Second)
			expectNotExecuted(c, box, 0, "the purged job")
		}},
	{ID: "OPS-20-many", Needs: suite.OwnEndpoint | suite.Webhooks, Allow: suite.Queue, Jobs: 62, Requests: 80, WaitTime: 80 * time.Second, Seconds: 62, Run: func(c *suite.C) {
		blocker, box := c.Blocker(time.Minute), c.Box()
		for range 60 {
			c.Run(suite.Beacon(box, 0, 0))
		}
		c.ExpectBefore(c.Post("/purge-queue", nil).Is(200), blocker.StartedAfter.Add(time.Minute))
		c.Sleep(80 * time.Second)
		expectNotExecuted(c, box, 0, "60 purged jobs")
	}},
	{ID: "OPS-21", Level: suite.Unspec, Source: "States and transitions, POST /purge-queue", Statement: "The response for a purged job; its status isn't IN_QUEUE.",
		Allow: suite.Queue, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
			c.Blocker(30 * time.Second)
			j := c.Run(suite.Echo())
			c.Given("OPS-17", func() { c.Post("/purge-queue", nil).Is(200) })
			a := j.Status()
			c.Observe("%d, status %v", a.Code, a.Shown("status"))
			c.Expect(a.Shown("status") != suite.InQueue, "a job that no longer waits", "status %v", a.Shown("status"))
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
		Allow: suite.Queue, Jobs: 1, WaitTime: 10 * time.Second, Seconds: 30, Run: judgeBusyCount("jobs.inProgress")},
	{ID: "OPS-26", Level: suite.Should, Source: "Health response", Statement: "jobs.completed counts the COMPLETED jobs, jobs.failed the FAILED ones.",
		Allow: suite.Queue, Jobs: 3, WaitTime: 10 * time.Second, Seconds: 3, Run: func(c *suite.C) {
			before := c.Get("/health").Is(200)
			c.RunSync(suite.Echo())
			c.Run(suite.Fail()).Failed()
			c.Run(suite.Fail()).Failed()
			expectHealth(c, "jobs.completed", before.Int("jobs.completed")+1)
			expectHealth(c, "jobs.failed", before.Int("jobs.failed")+2)
		}},
	{ID: "OPS-27", Level: suite.Unspec, Source: "Health response", Statement: "What jobs.retried counts.",
		Allow: suite.Queue, Jobs: 2, WaitTime: 10 * time.Second, Seconds: 3, Requests: 15, Run: func(c *suite.C) {
			before := c.Get("/health").Is(200).Int("jobs.retried")
			j := c.Run(suite.Fail(suite.M{"times": 1})).Reach(suite.Failed)
			c.Given("JOB-22", func() { j.Retry().Is(200) })
			j.Completed()
			retries := c.Get("/health").Is(200).Int("jobs.retried") - before
			c.Run(suite.Crash(suite.M{"times": 1}))
			for range 5 {
				c.Sleep(time.Second)
			}
			c.Observe("/retry counts %d, a worker that died %d", retries, c.Get("/health").Is(200).Int("jobs.retried")-before-retries)
		}},
	{ID: "OPS-28", Level: suite.Should, Source: "Health response", Statement: "workers.running counts the workers that have a job.",
		Allow: suite.Queue, Jobs: 1, WaitTime: 10 * time.Second, Seconds: 30, Run: judgeBusyCount("workers.running")},
	{ID: "OPS-29", Level: suite.Unspec, Source: "Endpoints B, rule 5", Statement: "Whether POST /openai/* exists.",
		Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			unknownPath := c.Post("/no-such-operation", suite.Echo())
			a := c.Post("/openai/v1/chat/completions", suite.Echo())
			c.Observe("%d; a path that does not exist: %d", a.Code, unknownPath.Code)
		}},
	{ID: "OPS-30", Level: suite.Unspec, Source: "Endpoints B, rule 5", Statement: "Whether GET /requests exists.", Needs: suite.AnyEndpoint, Run: func(c *suite.C) {
		a := c.Get("/requests")
		c.Observe("%d with %s", a.Code, a.Shape())
	}},
})

// judgeBusyCount judges a count of /health that a running job increases from 0 to 1.
func judgeBusyCount(path string) func(*suite.C) {
	return func(c *suite.C) {
		expectHealth(c, path, 0)
		c.Blocker(time.Minute)
		expectHealth(c, path, 1)
	}
}

// expectHealth expects a count of /health. Counts may be a little late.
func expectHealth(c *suite.C, path string, want int64) {
	var a *suite.Answer
	for range 5 {
		if a = c.Get("/health").Is(200); a.Int(path) == want {
			return
		}
		c.Sleep(2 * time.Second)
	}
	a.Equal(path, want)
}
