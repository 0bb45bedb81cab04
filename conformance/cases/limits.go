package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// retention is how long the result of /run is there (Limits).
const retention = 30 * time.Minute

var limits = []suite.Case{
	{
		ID: "LIM-11", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: retention,
		Run: func(c *suite.C) {
			job := c.Run(suite.Echo(suite.M{"x": "kept"}))
			job.Completed()
			over := job.Answer.Sent // or later
			c.Until(over.Add(retention - c.Early(time.Minute)))
			there := job.Status()
			c.Before(there, over.Add(retention-c.Early(time.Second)/2))
			there.Is(200).Equal("output.x", "kept")
		},
	},
	{
		ID: "LIM-12", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Seconds: 1, Takes: retention + 2*time.Minute,
		Run: func(c *suite.C) {
			// A retry changes a job: each look has one of its own.
			jobs := []*suite.Job{c.Run(suite.Fail()), c.Run(suite.Fail())}
			jobs[0].Failed()
			over := jobs[1].Failed().Received
			c.By(over.Add(retention), func() {
				job := jobs[0]
				jobs = jobs[1:]
				job.Retry().Refused()
				job.Status().Absent("output")
			})
		},
	},
}
