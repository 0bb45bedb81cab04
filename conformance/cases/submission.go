package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

var submissions = []suite.Case{
	{
		ID: "SUB-01", Needs: suite.Endpoint, Requests: 5,
		Run: func(c *suite.C) {
			discerns(c)
			for _, path := range []string{"/run", "/runsync"} {
				c.Post(path, suite.M{}).BadRequest()
				c.Post(path, suite.M{"policy": suite.M{}}).BadRequest()
			}
		},
	},
	{
		ID: "SUB-22", Clauses: []string{"ERR-03"}, Needs: suite.Idle, Allow: suite.Queue, Jobs: 1, Takes: 15 * time.Second,
		Run: func(c *suite.C) {
			job := c.Run(suite.Echo(), suite.TTL(10*time.Second))
			c.Until(job.Answer.Sent.Add(10*time.Second - c.Early(2*time.Second)))
			there := job.Status()
			c.Before(there, job.Answer.Sent.Add(10*time.Second))
			there.Is(200).Equal("status", suite.InQueue)
			during(job.Answer).later(10*time.Second).isGone(c, job)
		},
	},
}
