package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Operations on one job leave the others of the endpoint as they are.
var oneOfSeveral = []suite.Case{
	{ID: "JOB-17-one", Needs: suite.Own, Allow: suite.Queue, Jobs: 5, Requests: 30, Takes: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		job := c.Run(suite.Echo())
		job.InQueue()
		job.Cancel().Is(200)
		s.unchanged()
	}},
	{ID: "JOB-22-one", Needs: suite.Own, Allow: suite.Queue, Jobs: 3, Requests: 25, Seconds: 30, Run: func(c *suite.C) {
		first, second := c.Run(suite.Fail()), c.Run(suite.Fail())
		first.Failed()
		second.Failed()
		c.Blocker(time.Minute)
		first.Retry().Is(200)
		second.Status().Is(200).Equal("status", suite.Failed)
		purge(c, c.E).Is(200).Equal("removed", 1)
	}},
	{ID: "JOB-44-one", Needs: suite.Idle, Allow: suite.Queue, Jobs: 2, Takes: 15 * time.Second, Run: func(c *suite.C) {
		first, second := c.Run(suite.Echo()), c.Run(suite.Echo())
		set := c.Get("/status/" + first.ID + "?ttl=10000").Is(200)
		during(set).later(10*time.Second).isGone(c, first)
		second.Status().Is(200).Equal("status", suite.InQueue)
	}},
	{ID: "OPS-09-one", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
		first, second := c.Run(suite.Stream(2, 0)), c.Run(suite.Stream(3, 0))
		first.Completed()
		second.Completed()
		c.Expect(len(first.Stream().Is(200).Chunks()) == 2, "2 chunks of the first job", "another number")
		c.Expect(len(second.Stream().Is(200).Chunks()) == 3, "3 chunks of the second job", "another number")
	}},
}
