package cases

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

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
			askAll(c, jobOperations, suite.WithoutKey())
			if c.Alone() {
				c.Get("/health").Is(200).Equal("jobs", before)
			}
		},
	},
	{
		ID: "AUT-05", Needs: suite.Endpoint | suite.OtherKey,
		Run: func(c *suite.C) {
			c.Get("/health").Is(200)
			for _, a := range []*suite.Answer{
				c.Get("/health", suite.As(c.OtherKey())), c.Post("/run", suite.Submission(suite.Echo()), suite.As(c.OtherKey())),
			} {
				a.Is(403, 401) // "wrong or lacking permission"
				c.Should(func() { a.Is(403) })
			}
		},
	},
}
