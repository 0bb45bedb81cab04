package cases

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// batchCases judge batch jobs. They judge only what RunPod's page says.
var batchCases = section(suite.Case{Level: suite.Should, Source: "API changes of November 2026, 3.1", Needs: suite.OwnEndpoint, Allow: suite.Queue}, []suite.Case{
	{ID: "BAT-01", Statement: "POST /batch takes an array of requests, which may be empty, and returns id and the status DRAFT.", Jobs: 1, Run: func(c *suite.C) {
		first, second := newBatch(c), newBatch(c, suite.Echo())
		c.Expect(first != second, "two ids", "the same id twice")
	}},
	{ID: "AUT-03-batch", Supplementary: true, Jobs: 1, Run: func(c *suite.C) {
		batch := newBatch(c, suite.Echo())
		for path, method := range map[string]string{"/batch": "GET", batch: "GET", batch + "/requests": "GET", batch + "/finalize": "POST", batch + "/cancel": "POST"} {
			c.Job(method, c.Endpoint, path, nil, suite.WithoutKey()).Is(401)
		}
		c.Post("/batch", requestsOf(suite.Echo()), suite.WithoutKey()).Is(401)
		c.Get(batch).Success().Equal("status", "DRAFT")
	}},
	{ID: "BAT-02", Statement: "The summary of a batch has id, endpointId, status, the numbers of requests, and createdAt in milliseconds since 1970. GET /batch lists the batches newest first.", Jobs: 2, Run: func(c *suite.C) {
		batch := newBatch(c, suite.Echo(), suite.Echo())
		a := c.Get(batch).Success().Equal("id", idOfBatch(batch)).Equal("endpointId", c.Endpoint).Equal("status", "DRAFT")
		for member, want := range map[string]int64{"requestTotal": 2, "requestInProgress": 0, "requestCompleted": 0, "requestFailed": 0} {
			c.Expect(a.Int(member) == want, fmt.Sprintf("%s %d", member, want), "the count %d", a.Int(member))
		}
		created := time.UnixMilli(a.Int("createdAt"))
		c.Expect(created.Sub(c.Now()).Abs() < 10*time.Minute, "createdAt near now", "createdAt %s", created)
	}},
	{ID: "BAT-02-list", Supplementary: true, WaitTime: 2 * time.Second, Run: func(c *suite.C) {
		older := newBatch(c)
		c.Sleep(2 * time.Second)
		newer := newBatch(c)
		ids := c.Get("/batch").Success().IDs("batches")
		position := func(path string) int { return slices.Index(ids, idOfBatch(path)) }
		c.Expect(position(newer) >= 0 && position(newer) < position(older), "both batches, with the newest first", "the newer one at index %d, the older one at %d", position(newer), position(older))
	}},
	{ID: "BAT-03", Statement: "POST /batch/{id}/requests adds requests to a draft, again and again.", Jobs: 4, Run: func(c *suite.C) {
		batch := newBatch(c, suite.Echo())
		for n := range 3 {
			addRequests(c, batch, suite.Echo()).Success()
			c.Get(batch).Success().Equal("status", "DRAFT").Equal("requestTotal", n+2)
		}
	}},
	{ID: "BAT-04", Statement: "DELETE /batch/{id}/requests/{requestId} removes one request from a draft.", Jobs: 3, Run: func(c *suite.C) {
		batch := newBatch(c, suite.Echo(), suite.Echo(), suite.Echo())
		ids := c.Get(batch + "/requests").Success().IDs("requests")
		if len(ids) != 3 {
			c.Inconclusive("the requests of a draft have no ids")
		}
		c.Job("DELETE", c.Endpoint, batch+"/requests/"+suite.PathSegment(ids[1]), nil).Success()
		c.Get(batch).Success().Equal("requestTotal", 2)
		remaining := c.Get(batch + "/requests").Success().IDs("requests") // in any order
		c.Expect(len(remaining) == 2 && slices.Contains(remaining, ids[0]) && slices.Contains(remaining, ids[2]), "the two others", "%d requests", len(remaining))
	}},
	{ID: "BAT-05", Statement: "After POST /batch/{id}/finalize the batch is FINALIZED, and no request can be added or removed.",
		Jobs: 3, Seconds: 2, WaitTime: batchWait, Run: func(c *suite.C) {
			batch := newBatch(c, suite.Echo(), suite.Echo())
			finalize(c, batch)
			addRequests(c, batch, suite.Echo()).Refused()
			for _, id := range c.Get(batch + "/requests").Success().IDs("requests") {
				c.Job("DELETE", c.Endpoint, batch+"/requests/"+suite.PathSegment(id), nil).Refused()
			}
			c.Get(batch).Success().Equal("status", "FINALIZED").Equal("requestTotal", 2)
		}},
	{ID: "BAT-06", Statement: "A draft's requests don't run. Once it is FINALIZED they do, until requestCompleted + requestFailed = requestTotal; the status stays FINALIZED.",
		Jobs: 3, Seconds: 2, WaitTime: batchWait, Run: func(c *suite.C) {
			batch := newBatch(c, suite.Echo(), suite.Echo(), suite.Echo())
			c.Sleep(2 * time.Second)
			c.Get(batch).Success().Equal("status", "DRAFT").Equal("requestCompleted", 0).Equal("requestInProgress", 0)
			finalize(c, batch)
			awaitBatchEnd(c, batch).Equal("status", "FINALIZED").Equal("requestCompleted", 3).Equal("requestFailed", 0).Equal("requestInProgress", 0)
		}},
	{ID: "BAT-07", Statement: "A failed request doesn't fail its batch.", Jobs: 2, Seconds: 2, WaitTime: batchWait, Run: func(c *suite.C) {
		batch := newBatch(c, suite.Fail(), suite.Echo())
		finalize(c, batch)
		awaitBatchEnd(c, batch).Equal("status", "FINALIZED").Equal("requestCompleted", 1).Equal("requestFailed", 1)
	}},
	{ID: "BAT-08", Statement: "GET /batch/{id}/requests returns each request with id, status, its output or error, and startedAt and completedAt (RFC 3339).",
		Jobs: 2, Seconds: 2, WaitTime: batchWait, Run: func(c *suite.C) {
			nonce := c.Nonce()
			batch := newBatch(c, suite.Echo(suite.M{"nonce": nonce}), suite.Fail(suite.M{"message": nonce}))
			finalize(c, batch)
			awaitBatchEnd(c, batch)
			a := c.Get(batch + "/requests").Success()
			for i := range a.Array("requests") {
				path := fmt.Sprintf("requests.%d.", i)
				a.Str(path + "id")
				expectRFC3339(c, a, path+"startedAt")
				expectRFC3339(c, a, path+"completedAt")
				if a.Str(path+"status") == suite.Completed {
					a.Equal(path+"output.nonce", nonce).Absent(path + "error")
				} else {
					a.Equal(path+"status", "FAILED")
					c.Expect(strings.Contains(a.Str(path+"error"), nonce), "the handler's error", "the error %q", a.Str(path+"error"))
				}
			}
		}},
	{ID: "BAT-09", Statement: "Results come in pages by offset and limit, with total and hasMore. Each request is on exactly one page.",
		Jobs: 5, Seconds: 2, WaitTime: batchWait, Run: func(c *suite.C) {
			batch := newBatch(c, suite.Echo(), suite.Echo(), suite.Echo(), suite.Echo(), suite.Echo())
			finalize(c, batch)
			awaitBatchEnd(c, batch)
			seen := map[string]bool{}
			for offset := 0; offset < 5; offset += 2 {
				a := c.Get(fmt.Sprintf("%s/requests?offset=%d&limit=2", batch, offset)).Success().
					Equal("total", 5).Equal("offset", offset).Equal("limit", 2).Equal("hasMore", offset < 4)
				ids := a.IDs("requests")
				c.Expect(len(ids) == min(2, 5-offset), "a whole page", "%d requests at %d", len(ids), offset)
				for _, id := range ids {
					seen[id] = true
				}
			}
			c.Expect(len(seen) == 5, "five requests", "%d requests", len(seen))
		}},
	{ID: "BAT-10", Statement: "POST /batch/{id}/cancel drops queued requests and lets running ones finish. Then the batch is CANCELLED.",
		Jobs: 3, Requests: 60, Seconds: 9, WaitTime: batchWait, Run: func(c *suite.C) {
			batch := newBatch(c, suite.Sleep(9*time.Second), suite.Sleep(9*time.Second), suite.Sleep(9*time.Second))
			finalize(c, batch)
			awaitBatch(c, batch, "a running request", func(a *suite.Answer) bool { return a.Int("requestInProgress") > 0 })
			running := c.Get(batch).Int("requestInProgress")
			c.Post(batch+"/cancel", nil).Success()
			if a := c.Get(batch).Success(); a.Int("requestInProgress") > 0 {
				c.Expect(a.Str("status") != "CANCELLED", "CANCELLED once no request runs", "CANCELLED while %d run", a.Int("requestInProgress"))
			}
			a := awaitBatch(c, batch, "the end of the batch", func(a *suite.Answer) bool { return a.Int("requestInProgress") == 0 })
			a.Equal("status", "CANCELLED")
			completed := a.Int("requestCompleted")
			c.Expect(completed >= 1 && completed <= running+1, "completed requests that were running before", "%d of 3 requests completed", completed)
		}},
	{ID: "BAT-11", Statement: "A call that adds requests has a body of at most 10 MiB. A larger one is rejected whole.", Jobs: 1, Run: func(c *suite.C) {
		batch := newBatch(c)
		if a := c.Post(batch+"/requests", suite.M{"requests": requestsOf(suite.M{"x": strings.Repeat("x", 10<<20)})}, suite.MayHangUp()); a.Code != 0 {
			a.Refused()
		}
		c.Get(batch).Success().Equal("requestTotal", 0)
		addRequests(c, batch, suite.M{"x": strings.Repeat("x", 10<<20-100)}).Success()
		c.Get(batch).Success().Equal("requestTotal", 1)
	}},
	{ID: "BAT-12", Statement: "A batch has at most 5,000 requests.", Jobs: 5000, Run: func(c *suite.C) {
		batch := newBatch(c)
		all := make([]any, 5000)
		for i := range all {
			all[i] = suite.M{}
		}
		addRequests(c, batch, all...).Success()
		addRequests(c, batch, suite.M{}).Refused()
		c.Get(batch).Success().Equal("requestTotal", 5000)
	}},
	{ID: "BAT-13", Statement: "An endpoint has at most 10 active batches.", Jobs: 11, Requests: 60, Seconds: 600, WaitTime: batchWait, Run: func(c *suite.C) {
		for range 10 {
			finalize(c, newBatch(c, suite.Sleep(10*time.Minute)))
		}
		a := c.Post("/batch", requestsOf(suite.Echo()))
		if a.Code < 400 {
			a = c.Post("/batch/"+suite.PathSegment(a.Str("id"))+"/finalize", nil)
		}
		a.Is(400, 403, 409, 422, 429)
	}},
	{ID: "BAT-14", Statement: "Batches have workers of their own: their requests don't delay jobs of /run.", Jobs: 5, Seconds: 90, WaitTime: batchWait, Run: func(c *suite.C) {
		request := suite.Sleep(time.Duration(localOrRemote(c, 8, 30)) * time.Second)
		batch := newBatch(c, request, request, request)
		c.Run(suite.Echo()).AwaitCompleted() // starts a worker
		finalize(c, batch)
		c.Run(suite.Echo()).Await(suite.Completed)
		a := c.Get(batch).Success()
		c.Expect(a.Int("requestCompleted") == 0, "the job to end before the requests of the batch", "%d completed requests", a.Int("requestCompleted"))
	}},
})

// batchWait is how long a case waits for the requests of a batch.
const batchWait = 30 * time.Second

func requestsOf(inputs ...any) []any {
	requests := make([]any, len(inputs))
	for i, input := range inputs {
		requests[i] = suite.M{"input": input}
	}
	return requests
}

// newBatch creates a draft and returns its path, which identifies the batch in the functions below.
func newBatch(c *suite.C, inputs ...any) (path string) {
	c.SkipIf(c.Target.Live, "the dialect of the public SDKs has no batches")
	a := c.Post("/batch", requestsOf(inputs...))
	c.SkipIf(isMissing(a), "the deployment has no batches: %d", a.Code)
	return "/batch/" + suite.PathSegment(a.Success().Equal("status", "DRAFT").Str("id"))
}

func idOfBatch(path string) string {
	id, _ := url.PathUnescape(strings.TrimPrefix(path, "/batch/")) // newBatch has escaped it
	return id
}

func addRequests(c *suite.C, batch string, inputs ...any) *suite.Answer {
	return c.Post(batch+"/requests", suite.M{"requests": requestsOf(inputs...)})
}

func finalize(c *suite.C, batch string) {
	c.Post(batch+"/finalize", nil).Success()
	c.Get(batch).Success().Equal("status", "FINALIZED")
}

// awaitBatchEnd waits until all requests have ended. RunPod promises no maximum time.
func awaitBatchEnd(c *suite.C, batch string) *suite.Answer {
	return awaitBatch(c, batch, "the end of all requests", func(a *suite.Answer) bool {
		return a.Int("requestCompleted")+a.Int("requestFailed") >= a.Int("requestTotal")
	})
}

func awaitBatch(c *suite.C, batch, event string, reached func(*suite.Answer) bool) (a *suite.Answer) {
	pause := time.Millisecond // of real time, which the workers of a local target need
	if !poll(c, batchWait, batchWait/60, func() bool {
		if a != nil && c.Target.Local {
			time.Sleep(pause)
			pause = min(2*pause, 64*time.Millisecond)
		}
		a = c.Get(batch).Success()
		return reached(a)
	}) {
		c.Inconclusive("%s did not come within %s", event, batchWait)
	}
	return a
}
