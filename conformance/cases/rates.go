package cases

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// rateCases judge the section "Limits", Rate limits: requests in 10 seconds.
var rateCases = section(suite.Case{Level: suite.Must}, slices.Concat(operationRateCases(), []suite.Case{
	{ID: "RAT-10", Source: "Limits, Rate limits", Statement: "The window of the rates is 10 seconds.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 32, WaitTime: 125 * time.Second, Run: func(c *suite.C) {
			begin := c.Now()
			c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
			c.JudgeWindow(begin, 2, "POST", "/purge-queue", nil)
		}},
	{ID: "RAT-18", Source: "Limits, Rate limits", Statement: "Each operation has its own limits.", Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 15, Run: func(c *suite.C) {
		c.Given("RAT-08", func() { c.Flood(10, "GET", "/requests", nil) })
		c.Post("/purge-queue", nil).Is(200)
		c.Get("/status/x").Refused()
	}},
	{ID: "RAT-18-open", Supplementary: true, Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 235, Jobs: 2, Run: func(c *suite.C) {
		unknownJob := unknownJobID(c)
		defer abortAll(openRuns(c))
		c.Get("/status/" + unknownJob).Is(404)
		c.Post("/cancel/"+unknownJob, nil).Is(404)
		c.Post("/purge-queue", nil).Is(200)
	}},
	{ID: "RAT-19", Source: "Limits, Rate limits", Statement: "Each endpoint has its own limits.",
		Needs: suite.OwnEndpoint | suite.SecondEndpoint, Allow: suite.Queue, Requests: 6, Run: func(c *suite.C) {
			c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
			c.Job("POST", c.SecondEndpoint, "/purge-queue", nil).Is(200)
		}},
	{ID: "RAT-19-open", Supplementary: true, Needs: suite.FiveWorkerEndpoint | suite.SecondEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 235, Jobs: 1, Run: func(c *suite.C) {
		defer abortAll(openRuns(c))
		c.Job("POST", c.SecondEndpoint, "/run", suite.Submission(suite.Echo())).Success()
	}},
	{ID: "RAT-20", Source: "Limits, Dynamic limit", Statement: "Each user has limits of their own.",
		Needs: suite.OwnEndpoint | suite.UserKey, Allow: suite.Queue, Requests: 6, Run: func(c *suite.C) {
			c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
			c.Post("/purge-queue", nil, suite.WithKey(c.Target.UserKey)).Is(200)
		}},
	{ID: "RAT-21", Source: "Limits, Dynamic limit", Statement: "The limit is the higher of the base limit and a limit that grows with the number of running workers.",
		Needs: suite.LocalOnly | suite.V2, Allow: suite.Create | suite.Queue | suite.Load, Requests: 2500, Jobs: 120, WaitTime: time.Minute, Run: func(c *suite.C) {
			// The description doesn't say how many requests a worker adds to the limit. If it adds
			// at least one, 120 workers add more than the base of 100, and 60 workers half as much.
			const workerCount, base, maxRequests = 120, 100, 1000
			c.Endpoint = c.NewEndpoint(workerCount)
			var jobs []*suite.Job
			countAccepted := func(workers int) (n int) {
				for len(jobs) < workers {
					jobs = append(jobs, c.Run(suite.Sleep(time.Hour)))
				}
				for _, j := range jobs {
					j.AwaitRunning()
				}
				c.Sleep(11 * time.Second) // the window has passed
				unknownJob := "/cancel/" + suite.PathSegment(suite.SimilarID(jobs[0].ID))
				for n < maxRequests && c.Post(unknownJob, nil, suite.Quiet()).Code != http.StatusTooManyRequests {
					n++
				}
				return n
			}
			withHalf := countAccepted(workerCount / 2)
			c.Expect(withHalf >= base, "100 requests, the base", "%d requests", withHalf)
			if withHalf == maxRequests {
				return // workers add so much that the base can't be measured
			}
			withAll := countAccepted(workerCount)
			c.Expect(withAll > base, "more requests than the 100 of the base, with 120 running workers", "%d requests", withAll)
			c.Expect(withAll == maxRequests || (withAll+1)/2 <= max(base, withHalf) && withHalf <= max(base, (withAll+1)/2),
				"the higher of 100 and the limit of the running workers: with 60 workers half as much as with 120", "%d with 60 workers, %d with 120", withHalf, withAll)
		}},
	{ID: "RAT-22", Source: "Errors, 429", Statement: "A request with the response 429 changes nothing: it creates, cancels and removes no job, and reads no stream.",
		Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 1010, Run: func(c *suite.C) {
			before := c.Get("/health").Is(200).Object("jobs")
			c.Burst(1000, "POST", "/run", nil)
			c.Given("RAT-02", func() { c.Post("/run", suite.Submission(suite.Echo())).Is(http.StatusTooManyRequests) })
			c.Sleep(c.Grace()) // counts may come a little late
			c.Get("/health").Is(200).Equal("jobs", before)
		}},
	{ID: "RAT-22-cancel", Needs: suite.IdleEndpoint, Allow: suite.Queue | suite.Load, Requests: 110, Jobs: 1, Run: func(c *suite.C) {
		waiting := c.Run(suite.Echo())
		c.Given("RAT-05", func() { c.Flood(100, "POST", "/cancel/x", nil) })
		requireRefusal(c, "RAT-05", waiting.Cancel())
		waiting.Status().Is(200).Equal("status", suite.InQueue)
	}},
	{ID: "RAT-22-purge", Needs: suite.IdleEndpoint, Allow: suite.Queue, Requests: 8, Jobs: 1, Run: func(c *suite.C) {
		c.Post("/purge-queue", nil).Is(200)
		c.Post("/purge-queue", nil).Is(200)
		waiting := c.Run(suite.Echo())
		requireRefusal(c, "RAT-06", c.Post("/purge-queue", nil))
		waiting.Status().Is(200).Equal("status", suite.InQueue)
	}},
	{ID: "RAT-22-runsync", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 450, Jobs: 400, Run: func(c *suite.C) {
		expectNoJobAboveLimit(c, "RAT-11", "/runsync", lowPrioritySubmission)
	}},
	{ID: "RAT-22-openai", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 450, Jobs: 400, Run: func(c *suite.C) {
		requireOpenAIRoute(c)
		expectNoJobAboveLimit(c, "RAT-16", "/openai/v1/x", suite.Sleep(time.Hour))
	}},
	{ID: "RAT-22-stream", Needs: suite.OwnEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 1500, Jobs: 2, Run: func(c *suite.C) {
		streamed := c.Run(suite.Stream(3, 0)).Reach(suite.Completed)
		waiting := c.Blocker(time.Hour)
		open := openToLimit(c, "RAT-14", 400, "GET", waiting.Path("stream"), nil)
		c.Given("RAT-14", func() { streamed.Stream().Is(http.StatusTooManyRequests) })
		abortAll(open)
		// The deployment notices disconnected clients a little later, in real time.
		for deadline := time.Now().Add(refusalPatience); c.Get("/stream/"+c.Nonce()).Code == http.StatusTooManyRequests && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		chunks := streamed.Chunks(3)
		c.Expect(len(chunks) == 3, "3 unread chunks", "%d chunks", len(chunks))
	}},
	{ID: "RAT-23", Level: suite.Unspec, Source: "Errors, 429", Statement: "The headers of a 429; if it has Retry-After, a request after that time succeeds.",
		Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 5, WaitTime: 12 * time.Second, Run: func(c *suite.C) {
			c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
			retryAfter := c.Post("/purge-queue", nil).Header.Get("Retry-After")
			if retryAfter == "" {
				c.Observe("no Retry-After")
				return
			}
			seconds, err := strconv.Atoi(retryAfter)
			c.Observe("Retry-After in seconds: %v", err == nil)
			if date, parseErr := http.ParseTime(retryAfter); parseErr == nil { // a date is the other form (RFC 9110)
				seconds, err = max(1, int(date.Sub(c.Now())/time.Second)+1), nil
			}
			if seconds > 60 {
				c.Observe("a Retry-After of more than a minute, for which the suite doesn't wait")
				return
			}
			c.Should(func() {
				c.Expect(err == nil && seconds >= 1, "Retry-After: seconds, 1 or more", "Retry-After: %s", retryAfter)
				c.Sleep(time.Duration(seconds) * time.Second)
				c.Post("/purge-queue", nil).Is(200)
			})
		}},
	{ID: "RAT-24", Level: suite.Unspec, Source: "Limits, Rate limits", Statement: "The rate limits of the management API.", Needs: suite.V2, Run: func(c *suite.C) {
		a := c.V2("GET", "/templates", nil).Is(200)
		c.Observe("RateLimit-Policy: %s", a.Header.Get("RateLimit-Policy"))
	}},
	{ID: "RAT-25", Level: suite.Should, Source: "Versioning, 3", Statement: "If version 2 returns the headers RateLimit and RateLimit-Policy, it returns them with every response to a valid key, including errors.",
		Needs: suite.V2 | suite.OtherKey, Requests: 4, Run: func(c *suite.C) {
			requireQuotas(c, c.V2("GET", "/templates", nil).Is(200))
			expectQuotas(c, c.V2("GET", "/templates", nil, suite.WithKey(c.Target.OtherKey)), c.V2("GET", "/templates/"+c.Nonce(), nil), c.V2("POST", "/templates", suite.M{}))
		}},
	{ID: "RAT-25-changed", Supplementary: true, Needs: suite.V2, Allow: suite.Create, Requests: 3, Run: func(c *suite.C) {
		requireQuotas(c, c.V2("GET", "/templates", nil).Is(200))
		created := c.NewTemplate("v2")
		expectQuotas(c, created, c.V2("DELETE", "/templates/"+suite.PathSegment(created.Str("id")), nil))
	}},
	{ID: "RAT-26", Level: suite.Should, Source: "Versioning, 3", Statement: "If version 2 returns a used-up quota (RateLimit with r=0), it rejects the next request.",
		Needs: suite.V2 | suite.LocalOnly, Requests: 70, Run: func(c *suite.C) {
			requireQuotas(c, c.V2("GET", "/templates", nil).Is(200))
			for range 65 {
				a := c.V2("GET", "/templates", nil)
				if a.Code/100 != 2 || !exhaustedQuota.MatchString(a.Header.Get("RateLimit")) {
					continue
				}
				next := c.V2("GET", "/templates", nil)
				next.Expect(next.Code == http.StatusTooManyRequests, "429 after RateLimit: "+a.Header.Get("RateLimit"))
				return
			}
		}},
	{ID: "RAT-09-mixed", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 4600, Jobs: 1, WaitTime: 11 * time.Second,
		Run: func(c *suite.C) {
			id := unknownJobID(c)
			c.Sleep(11 * time.Second)            // the window has passed
			for _, op := range ratedOperations { // together more than any single limit
				c.Burst(op.limit/2, op.method, strings.Replace(op.path, "{id}", id, 1), nil)
			}
		}},
}))

func operationRateCases() (list []suite.Case) {
	for _, op := range ratedOperations {
		rateCase := limitCase(op.Case, op.name, fmt.Sprintf("%s returns 429 above %d requests in 10 seconds.", op.name, op.limit), func(c *suite.C) {
			path, otherPath := op.path, op.path
			switch {
			case strings.HasPrefix(path, "/openai"):
				requireOpenAIRoute(c)
				otherPath += "y"
			case strings.Contains(path, "{id}"):
				path, otherPath = strings.Replace(path, "{id}", unknownJobID(c), 1), strings.Replace(path, "{id}", unknownJobID(c), 1)
			}
			c.Sleep(op.WaitTime) // 0 unless earlier requests of the case count; their window must have passed
			begin := c.Now()
			c.Flood(op.limit, op.method, path, op.body)
			if c.ControlsClock() { // the window doesn't end meanwhile
				c.Job(op.method, c.Endpoint, otherPath, op.body).Is(http.StatusTooManyRequests)
			}
			expectOthersAccepted(c, op.method, path, op.body)
			if c.ControlsClock() { // waiting takes no time
				c.Given("RAT-10", func() { c.JudgeWindow(begin, op.limit, op.method, path, op.body) })
			}
		})
		rateCase.GivenClauses = []string{"RAT-09", "RAT-10", "RAT-18", "RAT-20"}
		list = append(list, rateCase)
	}
	return list
}

// concurrencyCase completes a case about the limit of concurrent requests of an operation.
func concurrencyCase(c suite.Case, operation string, limit int, run func(c *suite.C)) suite.Case {
	return limitCase(c, operation, fmt.Sprintf("%s returns 429 above %d concurrent requests.", operation, limit), run)
}

func limitCase(c suite.Case, operation, statement string, run func(c *suite.C)) suite.Case {
	c.Level, c.Source, c.Statement, c.Run = suite.Must, "Limits, Rate limits, "+operation, statement, run
	return c
}

// Cases submit jobs with lowPriority, which start no worker, since the number of workers may change the limits.
var (
	lowPriority           = suite.Policy(suite.M{"lowPriority": true})
	lowPrioritySubmission = suite.Submission(suite.Echo(), lowPriority)
)

// exhaustedQuota matches an exhausted quota in the header RateLimit.
var exhaustedQuota = regexp.MustCompile(`;\s*r=0(\D|$)`)

// requireQuotas skips the case if the answer has no quotas. The deployment decides which users have any.
func requireQuotas(c *suite.C, a *suite.Answer) {
	c.SkipIf(a.Header.Get("RateLimit") == "" || a.Header.Get("RateLimit-Policy") == "", "answers show no quotas")
}

func expectQuotas(c *suite.C, answers ...*suite.Answer) {
	for _, a := range answers {
		shown := a.Header.Get("RateLimit") != "" && a.Header.Get("RateLimit-Policy") != ""
		c.Expect(shown || a.Code == 401, fmt.Sprintf("RateLimit and RateLimit-Policy with %d, as with 200", a.Code), "the headers %v", a.Header)
	}
}

// unknownJobID submits a job, and returns an unused id in the form of the job's, escaped for a path.
func unknownJobID(c *suite.C) string {
	return suite.PathSegment(suite.SimilarID(c.Run(suite.Echo(), lowPriority).ID))
}

// requireOpenAIRoute skips the case if the deployment lacks /openai/v1/x, which the description doesn't have.
func requireOpenAIRoute(c *suite.C) {
	a := c.Post("/openai/v1/x", nil)
	c.SkipIf(isMissing(a), "POST /openai/v1/x returned %d; the description has no paths below /openai", a.Code)
}

// requireRefusal expects a 429 above a limit, which a clause judges. A window may have ended, or a bucket refilled, in real time.
func requireRefusal(c *suite.C, clause string, a *suite.Answer) {
	c.SkipIf(a.Code != http.StatusTooManyRequests && !c.ControlsClock(), "the limit allowed a request again before the case could judge its refusal")
	c.Given(clause, func() { a.Is(http.StatusTooManyRequests) })
}

// openRuns opens as many requests of /run as permitted.
func openRuns(c *suite.C) []*suite.Pending {
	return openToLimit(c, "RAT-12", 200, "POST", "/run", nil, suite.Stalled())
}

// expectNoJobAboveLimit expects that a submission above the limit of concurrent requests creates no job.
func expectNoJobAboveLimit(c *suite.C, clause, path string, body any) {
	open := openToLimit(c, clause, 400, "POST", path, body)
	defer abortAll(open)
	c.Given(clause, func() { c.Post(path, body).Is(http.StatusTooManyRequests) })
	c.Sleep(4 * time.Second) // /health may be a little late
	a := c.Get("/health").Is(200)
	jobs := int(a.Int("jobs.inQueue") + a.Int("jobs.inProgress"))
	c.Expect(jobs <= len(open), "a job for each open request", "%d jobs of %d requests", jobs, len(open))
}

// ratedOperations are the operations with a rate limit (requests in 10 seconds), each with the case
// that judges it. Requests without a body are malformed, but count. {id} is an unknown job.
var ratedOperations = []struct {
	suite.Case
	name, method, path string
	limit              int
	body               any
}{
	{suite.Case{ID: "RAT-01", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2020, WaitTime: 11 * time.Second}, "/runsync", "POST", "/runsync", 2000, nil},
	{suite.Case{ID: "RAT-02", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 1020, Jobs: 1002}, "/run", "POST", "/run", 1000, lowPrioritySubmission},
	{suite.Case{ID: "RAT-03", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2020}, "/status", "GET", "/status/{id}", 2000, nil},
	{suite.Case{ID: "RAT-04", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2020}, "/stream", "GET", "/stream/{id}", 2000, nil},
	{suite.Case{ID: "RAT-05", Needs: suite.OwnEndpoint, Allow: suite.Queue | suite.Load, Requests: 225}, "/cancel", "POST", "/cancel/{id}", 100, nil},
	{suite.Case{ID: "RAT-06", Needs: suite.OwnEndpoint, Allow: suite.Queue, Requests: 32}, "/purge-queue", "POST", "/purge-queue", 2, nil},
	{suite.Case{ID: "RAT-07", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2020, WaitTime: 11 * time.Second}, "/openai/*", "POST", "/openai/v1/x", 2000, nil},
	{suite.Case{ID: "RAT-08", Needs: suite.OwnEndpoint, Requests: 45}, "/requests", "GET", "/requests", 10, nil},
}

// expectOthersAccepted expects, after the limit of an operation is used up, that other
// operations, and the same operation of another user, aren't refused.
func expectOthersAccepted(c *suite.C, method, path string, body any) {
	expectAccepted := func(a *suite.Answer) {
		c.Expect(a.Code != http.StatusTooManyRequests, "no 429, since another limit was used", "429 after the requests of %s", path)
	}
	usedUp := strings.Split(path, "/")[1] // the operation
	for _, op := range ratedOperations {
		if strings.Split(op.path, "/")[1] != usedUp {
			c.Given("RAT-18", func() {
				expectAccepted(c.Job(op.method, c.Endpoint, strings.Replace(op.path, "{id}", c.Nonce(), 1), nil))
			})
		}
	}
	if c.Target.UserKey != "" {
		c.Given("RAT-20", func() { expectAccepted(c.Job(method, c.Endpoint, path, body, suite.WithKey(c.Target.UserKey))) })
	}
}
