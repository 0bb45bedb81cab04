package cases

import (
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// The sizes of bodies.
var payloads = []suite.Case{
	{ID: "LIM-01", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second) // nobody has to read it
		c.JobOf(c.Post("/run", nil, suite.Raw(body(10_000_000))).Is(200))
	}},
	{ID: "LIM-02", Needs: suite.Endpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Run(suite.Echo())
		c.Post("/run", nil, suite.Raw(body(10<<20+1))).Refused()
	}},
	{ID: "LIM-03", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 3, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		c.Observe("10,000,001 bytes: %d; 10,485,760 bytes: %d", c.Post("/run", nil, suite.Raw(body(10_000_001))).Code, c.Post("/run", nil, suite.Raw(body(10<<20))).Code)
	}},
	{ID: "LIM-04", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/runsync", nil, suite.Raw(body(20_000_000))).Is(200))
	}},
	{ID: "LIM-05", Needs: suite.Endpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.RunSync(suite.Echo())
		c.Post("/runsync", nil, suite.Raw(body(20<<20+1))).Refused()
	}},
	{ID: "LIM-06", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Observe("20,000,001 bytes: %d; 20,971,520 bytes: %d", c.Post("/runsync", nil, suite.Raw(body(20_000_001))).Code, c.Post("/runsync", nil, suite.Raw(body(20<<20))).Code)
	}},
	{ID: "LIM-07", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/runsync", nil, suite.Raw(body(15_000_000))).Is(200))
		c.Post("/run", nil, suite.Raw(body(15_000_000))).Refused()
	}},
	{ID: "LIM-08", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		c.Post("/run", nil, suite.Raw(body(10<<20+1))).Refused()
		c.Get("/health").Is(200).Equal("jobs.inQueue", 0)
	}},
	{ID: "LIM-09", Needs: suite.Endpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Run(suite.Echo())
		c.Post("/run", nil, suite.Raw(body(10<<20+500_000)), suite.Chunked()).Refused()
	}},
	{ID: "LIM-10", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 2, Seconds: 4, Run: func(c *suite.C) {
		for _, n := range []int{10_000_000, 21_000_000} {
			a := c.Run(suite.Bytes(n)).Await(suite.Completed, suite.Failed)
			output, _ := a.Find("output")
			text, _ := output.(string)
			c.Observe("%d bytes: %s with %d", n, a.Str("status"), len(text))
		}
	}},
}

// body is a submission of n bytes.
func body(n int) string {
	const before, after = `{"input":{"op":"sleep","pad":"`, `"}}`
	return before + strings.Repeat("x", n-len(before)-len(after)) + after
}
