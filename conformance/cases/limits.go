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
			over := job.Completed().Sent // or before
			c.Until(over.Add(retention - time.Minute))
			there := job.Status()
			c.Before(there, over.Add(retention-time.Second))
			there.Is(200).Equal("output.x", "kept")
		},
	},
	{
		ID: "LIM-12", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Takes: retention + 2*time.Minute,
		Run: func(c *suite.C) {
			job := c.Run(suite.Fail())
			over := job.Failed().Received
			c.Until(over.Add(retention + 30*time.Second))
			job.Retry().Refused()
			job.Status().Absent("output")
		},
	},
}
