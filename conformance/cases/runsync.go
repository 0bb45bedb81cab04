package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// The wait of /runsync.
var waits = []suite.Case{
	{ID: "OPS-02", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Takes: 6 * time.Second, Seconds: 6, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		begin := c.Now()
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(time.Minute)))
		if c.Exact() {
			p.Until(begin.Add(time.Second - c.Early(0)))
		} else {
			p.Sleep(500 * time.Millisecond)
		}
		if !p.Open() { // it was refused, or not kept
			early := begin.Add(900 * time.Millisecond).Sub(p.Answer().Is(200).Received)
			c.Expect(early <= 0, "no answer before the wait of 1 s is over", "an answer at once")
		}
		p.Until(begin.Add(time.Second + c.Grace()))
		release(c, p.Answer()) // what it says, the description leaves open
	}},
	{ID: "OPS-03", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Takes: 205 * time.Second, Seconds: 200, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		p := c.Start("POST", "/runsync?wait=300000", suite.Submission(suite.Sleep(200*time.Second, suite.M{"output": "late"})))
		p.Sleep(200*time.Second + c.Grace())
		c.JobOf(p.Answer().Is(200)).Answer.Equal("status", suite.Completed).Equal("output", "late")
	}},
	{ID: "OPS-04", Needs: suite.Endpoint, Requests: 9, Allow: suite.Queue, Run: func(c *suite.C) {
		discerns(c)
		for _, wait := range []string{"999", "300001", "0", "-1", "abc", "1.5"} {
			submit(c, "/runsync?wait="+wait, suite.Submission(suite.Echo())).BadRequest()
		}
	}},
	{ID: "OPS-06", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Takes: 22 * time.Second, Seconds: 8, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		health(c, "jobs.completed", 1)
		p := c.Start("POST", "/runsync?wait=1000", suite.Submission(suite.Sleep(8*time.Second, suite.M{"output": "went on"})))
		p.Sleep(time.Second + c.Grace())
		a := p.Answer()
		c.Sleep(8 * time.Second)
		if id, _ := a.Find("id"); id == nil { // the answer need not have one
			health(c, "jobs.completed", 2)
			return
		}
		c.JobOf(a).Await(suite.Completed).Equal("output", "went on")
	}},
	{ID: "OPS-07", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Takes: 5 * time.Second, Seconds: 3, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		begin := c.Now()
		p := c.Start("POST", "/runsync?wait=300000", suite.Submission(suite.Sleep(2*time.Second)))
		p.Until(begin.Add(2*time.Second + c.Late(10*time.Second)))
		a := p.Answer().Is(200)
		c.JobOf(a)
		a.Equal("status", suite.Completed)
	}},
}
