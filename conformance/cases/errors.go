package cases

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// errorCases judge the section "Errors" and item 9 of "Versioning".
var errorCases = section(suite.Case{Level: suite.Must}, []suite.Case{
	{ID: "ERR-01", Source: "Errors, 400", Statement: "Malformed requests and parameters return 400.", Needs: suite.AnyEndpoint, Requests: 4, Run: func(c *suite.C) {
		c.Get("/health").Is(200)
		requireDistinctErrors(c)
		c.Post("/run", nil, suite.Raw("{")).BadRequest()
		c.Post("/runsync", suite.M{}).BadRequest()
	}},
	{ID: "ERR-01-management", Needs: suite.V1, Run: func(c *suite.C) {
		c.V1("GET", "/containerregistryauth", nil).Is(200)
		c.V1("POST", "/templates", nil, suite.Raw("{")).BadRequest()
		c.V1("POST", "/templates", suite.M{}).BadRequest()
	}},
	{ID: "ERR-01-v2", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		c.V2("GET", "/templates", nil).Is(200)
		c.V2("POST", "/templates", nil, suite.Raw("{")).Is(400, 422) // 422 is for a body that doesn't fit its schema
	}},
	{ID: "ERR-02", Source: "Errors, 404", Statement: "Every operation returns 404 for an unknown or deleted endpoint.", Needs: suite.AnyEndpoint, Requests: 12, Run: func(c *suite.C) {
		c.Get("/health").Is(200)
		unknownEndpoint := suite.SimilarID(c.Endpoint)
		for _, op := range jobOperations {
			a := c.Job(op.method, unknownEndpoint, op.pathFor("x"), op.validBody(c, nil, c.Nonce()))
			if !op.takesID() || a.Code != 400 { // x may be malformed as a job's id
				a.Is(404)
			}
		}
	}},
	{ID: "ERR-02-management", Needs: suite.V2, Requests: 10, Run: func(c *suite.C) {
		c.V2("GET", "/serverless", nil).Is(200)
		id := c.Nonce()[:14]
		list := slices.DeleteFunc(operationsOf(v2API), func(op contractOperation) bool { return op.kind != "endpoint" || !op.takesID() })
		if !c.IncludeIfLocal("all operations with the same method on the same kind of object") {
			list = onePerKind(list)
		}
		for _, op := range list {
			op.send(c, id, op.validBody(c, nil, c.Nonce())).Is(404, 400) // the id may be malformed
		}
	}},
	{ID: "ERR-02-deleted", Needs: suite.V2 | suite.AnyEndpoint, Allow: suite.Create | suite.Queue, Jobs: 3, Requests: 45, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		c.Endpoint = c.NewEndpoint(1)
		completed := c.Run(suite.Echo()).Reach(suite.Completed)
		jobs := []*suite.Job{completed, c.Blocker(time.Minute), c.Run(suite.Echo())}
		c.V2("DELETE", "/serverless/"+suite.PathSegment(c.Endpoint), nil).Success()
		c.Sleep(consistency)
		eventually(c, func() bool { return c.Get("/health").Code/100 == 4 })
		for _, op := range jobOperations {
			for _, j := range jobs {
				op.send(c, j.ID, op.validBody(c, nil, c.Nonce())).Is(404, 410)
				if !op.takesID() {
					break
				}
			}
		}
		for _, op := range operationsOf(v2API) {
			if op.kind == "endpoint" && op.takesID() {
				op.send(c, c.Endpoint, op.validBody(c, nil, c.Nonce())).Is(404, 410)
			}
		}
		expectNotListed(c, "v2", "/serverless", c.Endpoint)
	}},
	{ID: "ERR-03", Source: "Errors, 404", Statement: "A job whose ttl has ended returns 404.",
		Needs: suite.IdleEndpoint, Allow: suite.Queue, Jobs: 1, WaitTime: 12 * time.Second, Run: judgeTTL(suite.InQueue, suite.Echo())},
	{ID: "ERR-04", Source: "Errors, 429", Statement: "A request above the rate limit returns 429.", Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 4, Run: func(c *suite.C) {
		begin := c.Now()
		c.Given("RAT-09", func() {
			c.Post("/purge-queue", nil).Is(200)
			c.Post("/purge-queue", nil).Is(200)
		})
		c.Post("/purge-queue", nil).IfBefore(begin.Add(10 * time.Second)).Is(429)
	}},
	{ID: "ERR-05", Level: suite.Unspec, Source: "Errors, 500", Statement: "The body of a 500.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 1, WaitTime: 100 * time.Second, Seconds: 5, Run: func(c *suite.C) {
			c.AllowCrash()
			p := c.Start("POST", "/runsync", suite.Submission(suite.Crash()))
			p.Sleep(100 * time.Second)
			a := p.Answer()
			c.Observe("%d with %s", a.Code, a.Shape())
		}},
	{ID: "ERR-06", Source: "Errors", Statement: "An error of version 1 is an object with the member message, a string.",
		Needs: suite.V1, Watch: judgeErrorForm(v1API), Run: func(c *suite.C) {
			c.V1("POST", "/templates", suite.M{}).BadRequest().Str("message")
			c.V1("GET", "/containerregistryauth", nil, suite.WithoutKey()).Is(401).Str("message")
			c.V1("DELETE", "/containerregistryauth/"+c.Nonce(), nil).Is(400).Str("message")
		}},
	{ID: "ERR-06-every", Needs: suite.V1, Allow: suite.Create, Requests: 250, Run: func(c *suite.C) {
		judgeRefusals(c, v1API, func(a *suite.Answer) { a.Str("message") })
	}},
	{ID: "ERR-07", Source: "Versioning, 9", Statement: "An error of version 2 has the strings title and detail, and the status code as the integer status (RFC 9457).",
		Needs: suite.V2, Requests: 4, Watch: judgeErrorForm(v2API), Run: func(c *suite.C) {
			for _, a := range provokeV2Errors(c) {
				expectProblem(a)
			}
			unknownMethod := c.V2("PUT", "/templates", suite.M{})
			c.Should(func() { expectProblem(unknownMethod) }) // a router may refuse it
		}},
	{ID: "ERR-07-every", Needs: suite.V2, Allow: suite.Create, Requests: 250, Run: func(c *suite.C) {
		judgeRefusals(c, v2API, expectProblem)
		c.Create("v2", "/clusters", suite.M{})
	}},
	{ID: "ERR-08", Source: "Versioning, 9", Statement: "The member errors of an error of version 2, if present, is an array of strings.", Needs: suite.V2, Requests: 2, Watch: judgeErrorList, Run: func(c *suite.C) {
		c.V2("GET", "/templates", nil).Is(200)
		c.V2("POST", "/templates", suite.M{"image": 5}).Refused().Str("title")
	}},
	{ID: "ERR-08-every", Needs: suite.V2, Allow: suite.Create, Run: func(c *suite.C) {
		c.V2("POST", "/templates", nil, suite.Raw("{")).Refused()
		c.Create("v2", "/serverless", suite.M{"workers": 5}).Refused()
		c.Create("v2", "/clusters", suite.M{})
		c.V2("PATCH", "/templates/"+suite.PathSegment(c.NewTemplate("v2").Str("id")), suite.M{"disk": "x"}).Refused()
	}},
	{ID: "ERR-09", Level: suite.Should, Source: "Versioning, 9", Statement: "An error of version 2 has the media type application/problem+json (RFC 9457).",
		Needs: suite.V2, Watch: judgeErrorType, Run: func(c *suite.C) {
			for _, a := range provokeV2Errors(c) {
				a.ContentType("application/problem+json")
			}
		}},
	{ID: "ERR-09-every", Needs: suite.V2 | suite.LocalOnly, Allow: suite.Create, Requests: 500, Run: func(c *suite.C) {
		judgeRefusals(c, v2API, func(a *suite.Answer) { a.ContentType("application/problem+json") })
	}},
	{ID: "ERR-10", Level: suite.Unspec, Source: "Errors", Statement: "The body of an error of the job API.", Needs: suite.AnyEndpoint, Run: func(c *suite.C) {
		c.Observe("400: %s", c.Post("/run", suite.M{}).Shape())
		c.Observe("401: %s", c.Get("/health", suite.WithoutKey()).Shape())
		c.Observe("404: %s", c.Get("/status/"+c.Nonce()).Shape())
	}},
	{ID: "ERR-11", Source: "Introduction", Statement: "Bodies are JSON.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 3, WaitTime: 30 * time.Second, Seconds: 30,
		Watch: func(w *suite.WatchedExchange) string {
			// Streams, logs and web pages are text.
			contentType := w.Header.Get("Content-Type")
			if w.API == "" || len(w.Body) == 0 || w.Request.Unread || strings.HasPrefix(contentType, "text/event-stream") || strings.Contains(w.Path, "/logs") || isProxyAnswer(w) {
				return ""
			}
			if _, err := w.JSON(); err != nil || w.API == string(jobAPI) && w.Exchange.Status/100 == 4 && strings.HasPrefix(contentType, "text/html") {
				return fmt.Sprintf("%d with a body that is not JSON, or has the type HTML: %.60q", w.Exchange.Status, w.Body)
			}
			return ""
		},
		Run: func(c *suite.C) {
			c.Get("/health").Is(200).Object("")
			c.RunSync(suite.Echo())
			blocker := c.Blocker(time.Minute)
			c.Run(suite.Echo()).Cancel().Is(200).Object("")
			c.Post("/purge-queue", nil).Is(200).Object("")
			requestHeldAnswer(c, blocker.Path("stream"))
			blocker.Cancel().Is(200).Object("")
		}},
	{ID: "ERR-11-every", Needs: suite.OwnEndpoint | suite.V2, Allow: suite.Queue, Jobs: 4, Requests: 150, WaitTime: 5 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		s := newScene(c)
		for _, op := range jobOperations {
			sendInvalidJobRequests(c, s, op)
		}
	}},
	{ID: "ERR-12", Level: suite.Unspec, Source: "Errors", Statement: "Which error is returned if a request has several.",
		Needs: suite.AnyEndpoint, Requests: 5, Run: func(c *suite.C) {
			unknownEndpoint := c.Nonce()[:14]
			c.Observe("no key, unknown endpoint: %d", c.Job("GET", unknownEndpoint, "/health", nil, suite.WithoutKey()).Code)
			c.Observe("no key, no body: %d", c.Post("/run", nil, suite.WithoutKey()).Code)
			c.Observe("unknown endpoint, no body: %d", c.Job("POST", unknownEndpoint, "/run", nil).Code)
			c.Observe("no key, unknown path: %d", c.Get("/"+c.Nonce(), suite.WithoutKey()).Code)
		}},
	{ID: "ERR-13", Source: "Errors, 400", Statement: "A rejected create of the management API creates nothing.",
		Needs: suite.V1, Allow: suite.Create, Requests: 200, WaitTime: time.Minute, Run: judgeRefusedCreations(v1API)},
	{ID: "ERR-13-v2", Needs: suite.V2, Allow: suite.Create, Requests: 200, WaitTime: time.Minute, Run: judgeRefusedCreations(v2API)},
	{ID: "ERR-14", Level: suite.Should, Source: "Errors, 400", Statement: "A rejected update of the management API changes nothing.",
		Needs: suite.V1, Allow: suite.Create, Requests: 400, WaitTime: time.Minute, Run: judgeRefusedUpdates(v1API)},
	{ID: "ERR-14-v2", Needs: suite.V2, Allow: suite.Create, Requests: 400, WaitTime: time.Minute, Run: judgeRefusedUpdates(v2API)},
	{ID: "ERR-15", Level: suite.Should, Source: "Errors, 404", Statement: "Every operation on an unknown or deleted object returns 404, in version 1 any 4xx except 401, 403 and 429.",
		Needs: suite.V1, Allow: suite.Create, Requests: 170, WaitTime: time.Minute, Run: judgeAbsentObjects(v1API)},
	{ID: "ERR-15-v2", Needs: suite.V2, Allow: suite.Create, Requests: 170, WaitTime: time.Minute, Run: judgeAbsentObjects(v2API)},
})

// isProxyAnswer reports whether a proxy in front of the deployment, or its router, may have sent the answer: the
// request is too large or too slow, or the API doesn't have its path, or no operation with this path and method.
func isProxyAnswer(w *suite.WatchedExchange) bool {
	code, first := w.Exchange.Status, strings.Split(w.Path, "/")[1]
	isKnownPath := slices.ContainsFunc(contract, func(op contractOperation) bool {
		return op.api == api(w.API) && strings.Split(op.path, "/")[1] == first
	})
	_, isOperation := operationAt(api(w.API), w.Request.Method, w.Path)
	return suite.FromProxy(code, false) || code == http.StatusRequestTimeout || code == http.StatusRequestURITooLong || !isKnownPath || !isOperation && isMissingCode(code)
}

// expectProblem expects the required members of an error of version 2.
func expectProblem(a *suite.Answer) {
	a.Str("title")
	a.Str("detail")
	a.Equal("status", a.Code)
}

// judgeErrorList expects that the errors of an error, if present, are an array of strings.
func judgeErrorList(w *suite.WatchedExchange) string {
	body, _ := errorOf(v2API, w)
	shown, exists := body["errors"]
	list, ok := shown.([]any)
	notString := func(element any) bool { _, ok := element.(string); return !ok }
	if exists && (!ok || slices.ContainsFunc(list, notString)) {
		return fmt.Sprintf("%d with the errors %s", w.Exchange.Status, suite.JSONText(shown))
	}
	return ""
}

// provokeV2Errors sends requests that version 2 refuses for different reasons.
func provokeV2Errors(c *suite.C) []*suite.Answer {
	return []*suite.Answer{
		c.V2("GET", "/templates/"+c.Nonce(), nil).Refused(), // 404, or 400 if the nonce is malformed as an id
		c.V2("POST", "/templates", suite.M{}).Refused(),
		c.V2("GET", "/templates", nil, suite.WithoutKey()).Is(401),
	}
}
