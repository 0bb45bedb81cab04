package cases

import (
	"bytes"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// payloadCases judge the section "Limits": the size of request bodies.
var payloadCases = section(suite.Case{Level: suite.Must, Needs: suite.OwnEndpoint, Allow: suite.Queue | suite.Load}, []suite.Case{
	{ID: "LIM-01", Source: "Limits, /run payload", Statement: "/run accepts a body of 10 MB.", Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second) // no worker reads the input
		c.JobOf(c.Post("/run", nil, suite.Raw(submissionOfSize(10_000_000))).Is(200))
	}},
	{ID: "LIM-02", Source: "Limits, /run payload", Statement: "/run rejects a body above 10 MB.", Needs: suite.AnyEndpoint, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Run(suite.Echo())
		expectTooLarge(c, "/run", 10<<20+1)
	}},
	{ID: "LIM-02-forms", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 30, Run: judgeFormsTooLarge("/run", 10<<20+1)},
	{ID: "LIM-03", Level: suite.Unspec, Source: "Limits, /run payload", Statement: "Whether MB is 10^6 or 2^20 bytes for /run.", Jobs: 2, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		observeMegabyte(c, "/run", 10)
	}},
	{ID: "LIM-04", Source: "Limits, /runsync payload", Statement: "/runsync accepts a body of 20 MB.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/runsync", nil, suite.Raw(submissionOfSize(20_000_000))).Is(200))
	}},
	{ID: "LIM-05", Source: "Limits, /runsync payload", Statement: "/runsync rejects a body above 20 MB.", Needs: suite.AnyEndpoint, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.RunSync(suite.Echo())
		expectTooLarge(c, "/runsync", 20<<20+1)
	}},
	{ID: "LIM-05-forms", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 30, Run: judgeFormsTooLarge("/runsync", 20<<20+1)},
	{ID: "LIM-06", Level: suite.Unspec, Source: "Limits, /runsync payload", Statement: "Whether MB is 10^6 or 2^20 bytes for /runsync.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		observeMegabyte(c, "/runsync", 20)
	}},
	{ID: "LIM-07", Source: "Endpoints B, rule 1", Statement: "/run and /runsync have different size limits.", Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/runsync", nil, suite.Raw(submissionOfSize(15_000_000))).Is(200))
		expectTooLarge(c, "/run", 15_000_000)
	}},
	{ID: "LIM-08", Source: "States and transitions, POST /run", Statement: "A rejected submission creates no job.", Jobs: 1, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		expectTooLarge(c, "/run", 10<<20+1)
		expectHealth(c, "jobs.inQueue", 0)
	}},
	{ID: "LIM-08-bodies", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 30, Requests: 90, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(time.Minute)
		accepted := 0
		for _, path := range []string{"/run", "/runsync?wait=1000"} {
			for _, body := range wrongBodies {
				for _, option := range []suite.Option{func(*suite.Request) {}, suite.Chunked()} {
					if submit(c, path, nil, suite.Raw(body), option).Code/100 == 2 { // other clauses judge refusals
						accepted++
					}
				}
			}
		}
		purgeQueue(c, c.Endpoint).Is(200).Equal("removed", accepted)
		for _, query := range []string{"wait=soon", "wait=-1"} {
			if submit(c, "/runsync?"+query, suite.Submission(suite.Echo())).Code/100 == 2 {
				return // another wait was applied, and the job may have ended
			}
		}
		purgeQueue(c, c.Endpoint).Is(200).Equal("removed", 0)
	}},
	{ID: "LIM-08-large", Needs: suite.OwnEndpoint, Allow: suite.Queue | suite.Load, Jobs: 1, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(time.Minute)
		for _, large := range largeBodies {
			expectTooLarge(c, large.path, large.size)
			expectTooLarge(c, large.path, large.size, suite.Chunked())
		}
		purgeQueue(c, c.Endpoint).Is(200).Equal("removed", 0)
	}},
	{ID: "LIM-09", Source: "Endpoints B, rule 1", Statement: "A body without Content-Length has the same size limit.",
		Needs: suite.AnyEndpoint, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
			c.Run(suite.Echo())
			for _, large := range largeBodies {
				expectTooLarge(c, large.path, large.size, suite.Chunked())
			}
		}},
	{ID: "LIM-10", Level: suite.Unspec, Source: "Endpoints B, rule 1", Statement: "How large an output may be.", Jobs: 2, Seconds: 4, Run: func(c *suite.C) {
		// Content that is accepted in the larger size is accepted in the smaller.
		for _, n := range []int{21_000_000, 10_000_000} {
			a := c.Run(suite.Bytes(n)).Await(suite.Completed, suite.Failed, suite.Cancelled, suite.TimedOut)
			text, _ := a.Shown("output").(string)
			c.Observe("%d bytes: %s with %d", n, a.Str("status"), len(text))
			if len(text) == n {
				return
			}
		}
	}},
})

// observeMegabyte observes whether the target's megabyte has 10^6 or 2^20 bytes.
func observeMegabyte(c *suite.C, path string, n int) {
	if a := c.Post(path, nil, suite.Raw(submissionOfSize(n<<20))); a.Code/100 == 2 {
		c.Observe("MB of 2^20 bytes")
		return
	}
	if a := c.Post(path, nil, suite.Raw(submissionOfSize(n*1_000_000+1))); a.Code/100 == 2 {
		c.Observe("more than 10^6 and less than 2^20 bytes for a MB")
		return
	}
	c.Observe("MB of 10^6 bytes")
}

// expectTooLarge expects that a body of n bytes is refused by an answer, or by closing the
// connection while it is sent.
func expectTooLarge(c *suite.C, path string, n int, o ...suite.Option) {
	a := c.Post(path, nil, append(o, suite.Raw(submissionOfSize(n)), suite.MayHangUp())...)
	if a.Code == 0 {
		c.Get("/health").Is(200) // the target still works
		return
	}
	a.Refused()
}

// judgeFormsTooLarge expects that all bytes of a body count: white space, multi-byte
// characters, and members other than the input.
func judgeFormsTooLarge(path string, n int) func(*suite.C) {
	return func(c *suite.C) {
		c.Blocker(time.Minute)
		const submission = `{"input":{"op":"echo"}`
		pad := func(before, unit, after string) []byte {
			return []byte(before + strings.Repeat(unit, (n-len(before)-len(after))/len(unit)+1) + after)
		}
		for _, body := range [][]byte{
			pad("", " ", submission+"}"), pad(submission+"}", "\n", ""), pad(submission, " ", "}"),
			pad(`{"input":{"op":"echo","pad":"`, "漢", `"}}`), pad(`{"input":{"op":"echo","pad":"`, `\u00e9`, `"}}`),
			pad(submission+`,"s3Config":{"accessId":"`, "x", `"}}`), pad(submission+`,"other":"`, "x", `"}`),
		} {
			a := c.Post(path, nil, suite.Raw(body), suite.MayHangUp())
			if a.Code != 0 {
				a.Refused()
			}
		}
		expectHealth(c, "jobs.inQueue", 0)
	}
}

// submissionOfSize returns a submission of n bytes.
func submissionOfSize(n int) []byte {
	const before, after = `{"input":{"op":"sleep","pad":"`, `"}}`
	b := bytes.Repeat([]byte{'x'}, n)
	copy(b, before)
	copy(b[n-len(after):], after)
	return b
}

// largeBodies are bodies that exceed a limit in either kind of megabyte.
var largeBodies = []struct {
	path string
	size int
}{{"/run", 10<<20 + 500_000}, {"/runsync", 20<<20 + 500_000}}

// wrongBodies are invalid submissions.
var wrongBodies = []string{
	`{}`, `{"policy":{}}`, `{"input":"text"}`, `{"input":[{}]}`, `{"input":null}`, `{"input":{}`, ``, `[]`, `nonsense`,
	`{"input":{},"webhook":5}`, `{"input":{},"webhook":"no address"}`, `{"input":{},"policy":"soon"}`, `{"input":{},"policy":{"ttl":"1000"}}`,
	`{"input":{},"policy":{"ttl":1}}`, `{"input":{},"policy":{"executionTimeout":1}}`, `{"input":{},"policy":{"lowPriority":"yes"}}`,
	`{"input":{},"s3Config":[]}`, `{"input":{},"s3Config":{"accessId":5}}`,
}
