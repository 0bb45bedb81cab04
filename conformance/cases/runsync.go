package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// The wait of /runsync.
var waits = []suite.Case{
	{ID: "OPS-02", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Takes: 6 * time.Second, Seconds: 6, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(time.Minute)))
		c.Sleep(time.Second + c.Grace())
		a := p.Answer().Is(200)
		a.Str("id")
		c.JobOf(a).Cancel()
	}},
	{ID: "OPS-03", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 205 * time.Second, Seconds: 200, Run: func(c *suite.C) {
		p := c.Start("POST", "/runsync?wait=300000", suite.Submission(suite.Sleep(200*time.Second, suite.M{"output": "late"})))
		c.Sleep(190 * time.Second)
		if p.Open() {
			c.Sleep(10*time.Second + c.Grace())
		}
		c.JobOf(p.Answer().Is(200)).Answer.Equal("status", suite.Completed).Equal("output", "late")
	}},
	{ID: "OPS-04", Needs: suite.Endpoint, Requests: 9, Allow: suite.Queue, Run: func(c *suite.C) {
		discerns(c)
		for _, wait := range []string{"999", "300001", "0", "-1", "abc", "1.5"} {
			submit(c, "/runsync?wait="+wait, suite.Submission(suite.Echo())).BadRequest()
		}
	}},
	{ID: "OPS-06", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 12 * time.Second, Seconds: 8, Run: func(c *suite.C) {
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(8*time.Second, suite.M{"output": "went on"})))
		c.Sleep(time.Second + c.Grace())
		j := c.JobOf(p.Answer().Is(200))
		c.Sleep(8 * time.Second)
		j.Await(suite.Completed).Equal("output", "went on")
	}},
	{ID: "OPS-07", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Takes: 5 * time.Second, Seconds: 3, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		begin := c.Now()
		p := c.Start("POST", "/runsync?wait=300000", suite.Submission(suite.Sleep(2*time.Second)))
		c.Until(begin.Add(2*time.Second + 2*c.Grace()))
		a := p.Answer().Is(200)
		c.JobOf(a)
		a.Equal("status", suite.Completed)
	}},
}
