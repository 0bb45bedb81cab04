package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

var rates = []suite.Case{
	{
		ID: "RAT-01", Also: []string{"RAT-09", "RAT-10"}, Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2010, Jobs: 1, Takes: 11 * time.Second,
		Run: func(c *suite.C) {
			// Those that are refused for what they say count as well, and cost less.
			c.RunSync(suite.Echo())
			c.Sleep(11 * time.Second) // it counts no more
			begin := c.Now()
			c.Flood(2000, "POST", "/runsync", nil)
			if c.Exact() {
				c.Given("RAT-10", func() { c.Window(begin, 2000, "POST", "/runsync", nil) })
			}
		},
	},
	{
		ID: "RAT-06", Also: []string{"RAT-09"}, Needs: suite.Own, Allow: suite.Queue, Requests: 3,
		Run: func(c *suite.C) {
			c.Flood(2, "POST", "/purge-queue", nil)
		},
	},
}
