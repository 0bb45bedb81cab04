package cases

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

var jobs = []suite.Case{
	{
		ID: "JOB-01", Needs: suite.Endpoint,
		Run: func(c *suite.C) {
			c.Get("/health").Is(200).Object("jobs")
			bare := c.Do("GET", c.QueueURL()+"/"+c.E+"/health", nil)
			_, same := bare.Find("jobs") // a web page may be anywhere
			c.Expect(bare.Code/100 != 2 || !same, "no such path without /v2", "the status code %d", bare.Code)
		},
	},
	{
		ID: "JOB-03", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Seconds: 2,
		Run: func(c *suite.C) {
			for _, path := range []string{"/run", "/runsync"} {
				id := c.Post(path, suite.Submission(suite.Echo())).Is(200).Str("id")
				c.Expect(id != "", "an id", "an empty id")
				c.Get("/status/"+id).Is(200).Equal("id", id)
			}
		},
	},
	{
		ID: "JOB-05", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Seconds: 8, Takes: 8 * time.Second,
		Watch: func(w *suite.Watched) string {
			if w.Status != "" && !slices.Contains(suite.Statuses, w.Status) {
				return fmt.Sprintf("the status %q", w.Status)
			}
			return ""
		},
		Run: func(c *suite.C) {
			blocker := c.Run(suite.Sleep(8 * time.Second))
			blocker.Await(suite.InProgress)
			waits := c.Run(suite.Echo())
			waits.InQueue()
			waits.Cancel().Is(200)
			c.Until(blocker.StartedBefore.Add(8 * time.Second))
			blocker.Await(suite.Completed)
		},
	},
	{
		ID: "JOB-17", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Seconds: 5,
		Run: func(c *suite.C) {
			blocker := c.Blocker(30 * time.Second)
			job := c.Run(suite.Echo())
			job.InQueue()
			job.Cancel().Is(200)
			job.Await(suite.Cancelled)
			blocker.Cancel()
		},
	},
	{
		ID: "JOB-20", Needs: suite.Own | suite.Hooks, Allow: suite.Queue, Jobs: 1, Seconds: 40, Takes: 40 * time.Second,
		Run: func(c *suite.C) {
			ticks := c.Box()
			job := c.Run(suite.Beacon(ticks, time.Second, 10*time.Minute))
			job.Running()
			c.Given("JOB-16", func() {
				c.Calls(ticks, 1)
				c.Sleep(2 * time.Second)
				n := len(c.Calls(ticks, 2))
				c.Expect(n >= 2, "a call each second from the handler", "%d calls", n)
			})
			c.Given("JOB-19", func() { job.Cancel().Is(200) })
			c.Sleep(10 * time.Second) // for it to stop
			n := len(ticks.Calls())
			c.Sleep(20 * time.Second)
			after := len(ticks.Calls())
			c.Expect(after == n, "no call of the handler from 10 s after the cancellation on", "%d calls in the 20 s after that", after-n)
		},
	},
}
