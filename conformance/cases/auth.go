package cases

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

// jobOperations are those of the job API, x being a job.
var jobOperations = []struct{ method, path string }{
	{"POST", "/run"}, {"POST", "/runsync"}, {"GET", "/status/x"}, {"GET", "/stream/x"}, {"POST", "/cancel/x"}, {"POST", "/retry/x"},
	{"POST", "/purge-queue"}, {"GET", "/health"}, {"POST", "/openai/v1/completions"}, {"GET", "/requests"},
}

var auth = []suite.Case{
	{
		ID: "AUT-01", Needs: suite.Endpoint,
		Run: func(c *suite.C) {
			c.Get("/health").Is(200).Object("jobs")
			c.Given("AUT-03", func() { c.Get("/health", suite.WithoutKey()).Is(401) })
		},
	},
	{
		ID: "AUT-03", Needs: suite.Endpoint, Requests: 12,
		Run: func(c *suite.C) {
			before := c.Get("/health").Is(200).Object("jobs")
			for _, op := range jobOperations {
				var body any
				if op.method == "POST" {
					body = suite.Submission(suite.Echo())
				}
				c.Job(op.method, c.E, op.path, body, suite.WithoutKey()).Is(401)
			}
			if c.Alone() {
				c.Get("/health").Is(200).Equal("jobs", before)
			}
		},
	},
	{
		ID: "AUT-05", Needs: suite.Endpoint | suite.OtherKey,
		Run: func(c *suite.C) {
			c.Get("/health").Is(200)
			c.Get("/health", suite.As(c.OtherKey())).Is(403)
			c.Post("/run", suite.Submission(suite.Echo()), suite.As(c.OtherKey())).Is(403)
		},
	},
}
