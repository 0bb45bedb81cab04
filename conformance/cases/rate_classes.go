package cases

import (
	"net/http"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// ratedOperations are the operations with a rate limit (requests in 10 seconds), each with
// a request that has no effect and counts. {id} is an unknown job.
var ratedOperations = []struct {
	method, path string
	limit        int
}{
	{"POST", "/purge-queue", 2}, {"GET", "/requests", 10}, {"POST", "/cancel/{id}", 100}, {"POST", "/run", 1000}, {"POST", "/runsync", 2000}, // without a body
	{"GET", "/status/{id}", 2000}, {"GET", "/stream/{id}", 2000}, {"POST", "/openai/v1/x", 2000},
}

// expectOthersAccepted expects, after the limit of an operation is used up, that other
// operations, and the same operation of another user, aren't refused.
func expectOthersAccepted(c *suite.C, method, path string, body any) {
	accepted := func(a *suite.Answer) {
		c.Expect(a.Code != http.StatusTooManyRequests, "no 429, since another limit was used", "429 after the requests of %s", path)
	}
	used := strings.Split(path, "/")[1]
	for _, op := range ratedOperations {
		if strings.Split(op.path, "/")[1] != used {
			c.Given("RAT-18", func() { accepted(c.Job(op.method, c.Endpoint, strings.Replace(op.path, "{id}", c.Nonce(), 1), nil)) })
		}
	}
	if c.UserKey() != "" {
		c.Given("RAT-20", func() { accepted(c.Job(method, c.Endpoint, path, body, suite.As(c.UserKey()))) })
	}
}

var rateClassCases = []suite.Case{
	{ID: "RAT-09-mixed", Needs: suite.WideEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 4600, Jobs: 1, WaitTime: 11 * time.Second,
		Run: func(c *suite.C) {
			id := unknownJobID(c)
			c.Sleep(11 * time.Second)            // the window has passed
			for _, op := range ratedOperations { // together more than any single limit
				c.Burst(op.limit/2, op.method, strings.Replace(op.path, "{id}", id, 1), nil)
			}
		}},
}
