package cases

import (
	"bytes"
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
		tooLarge(c, "/run", 10<<20+1)
	}},
	{ID: "LIM-03", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		megabytes(c, "/run", 10)
	}},
	{ID: "LIM-04", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/runsync", nil, suite.Raw(body(20_000_000))).Is(200))
	}},
	{ID: "LIM-05", Needs: suite.Endpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.RunSync(suite.Echo())
		tooLarge(c, "/runsync", 20<<20+1)
	}},
	{ID: "LIM-06", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		megabytes(c, "/runsync", 20)
	}},
	{ID: "LIM-07", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/runsync", nil, suite.Raw(body(15_000_000))).Is(200))
		tooLarge(c, "/run", 15_000_000)
	}},
	{ID: "LIM-08", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		tooLarge(c, "/run", 10<<20+1)
		health(c, "jobs.inQueue", 0)
	}},
	{ID: "LIM-09", Needs: suite.Endpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Run(suite.Echo())
		for _, large := range largeBodies {
			tooLarge(c, large.path, large.size, suite.Chunked())
		}
	}},
	{ID: "LIM-10", Needs: suite.Own, Allow: suite.Queue | suite.Load, Jobs: 2, Seconds: 4, Run: func(c *suite.C) {
		// What is taken of the larger size is taken of the smaller.
		for _, n := range []int{21_000_000, 10_000_000} {
			a := c.Run(suite.Bytes(n)).Await(suite.Completed, suite.Failed, suite.Cancelled, suite.TimedOut)
			output, _ := a.Find("output")
			text, _ := output.(string)
			c.Observe("%d bytes: %s with %d", n, a.Str("status"), len(text))
			if len(text) == n {
				return
			}
		}
	}},
}

// megabytes observes how the target counts n MB: what it takes of the larger
// size, it takes of the smaller.
func megabytes(c *suite.C, path string, n int) {
	if a := c.Post(path, nil, suite.Raw(body(n<<20))); a.Code/100 == 2 {
		c.Observe("MB of 2^20 bytes")
		return
	}
	if a := c.Post(path, nil, suite.Raw(body(n*1_000_000+1))); a.Code/100 == 2 {
		c.Observe("more than 10^6 and less than 2^20 bytes for a MB")
		return
	}
	c.Observe("MB of 10^6 bytes")
}

// tooLarge expects that a body of n bytes is refused: by an answer, or by a
// connection that is closed before all of it was sent.
func tooLarge(c *suite.C, path string, n int, o ...suite.Option) {
	a := c.Post(path, nil, append(o, suite.Raw(body(n)), suite.MayHangUp())...)
	if a.Code == 0 {
		c.Get("/health").Is(200) // it is there, and took no more
		return
	}
	a.Refused()
}

// body is a submission of n bytes.
func body(n int) []byte {
	const before, after = `{"input":{"op":"sleep","pad":"`, `"}}`
	b := bytes.Repeat([]byte{'x'}, n)
	copy(b, before)
	copy(b[n-len(after):], after)
	return b
}
