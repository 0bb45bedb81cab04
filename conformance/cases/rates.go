package cases

import (
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

var rates = []suite.Case{
	{
		ID: "RAT-01", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2010, Jobs: 2001,
		Run: func(c *suite.C) {
			c.Flood(2000, "POST", "/runsync", suite.Submission(suite.Echo()))
		},
	},
	{
		ID: "RAT-06", Needs: suite.Own, Allow: suite.Queue, Requests: 3,
		Run: func(c *suite.C) {
			for range 2 {
				c.Post("/purge-queue", nil).Is(http.StatusOK)
			}
			c.Post("/purge-queue", nil).Is(http.StatusTooManyRequests)
		},
	},
}
