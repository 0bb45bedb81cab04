package cases

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// rateLimits are how often, but for RAT-01 and RAT-06.
var rateLimits = []suite.Case{
	{ID: "RAT-02", Also: []string{"RAT-09"}, Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 1010, Jobs: 1001, Run: func(c *suite.C) {
		// They start no worker, and cost little.
		c.Flood(1000, "POST", "/run", suite.Submission(suite.Echo(), suite.Policy(suite.M{"lowPriority": true})))
	}},
	{ID: "RAT-03", Also: []string{"RAT-09"}, Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2010, Run: func(c *suite.C) {
		c.Flood(2000, "GET", "/status/x", nil)
	}},
	{ID: "RAT-04", Also: []string{"RAT-09"}, Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2010, Run: func(c *suite.C) {
		c.Flood(2000, "GET", "/stream/x", nil)
	}},
	{ID: "RAT-05", Also: []string{"RAT-09"}, Needs: suite.Own, Allow: suite.Queue | suite.Load, Requests: 110, Run: func(c *suite.C) {
		c.Flood(100, "POST", "/cancel/x", nil)
	}},
	{ID: "RAT-07", Also: []string{"RAT-09"}, Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2010, Run: func(c *suite.C) {
		c.Flood(2000, "POST", "/openai/v1/x", nil) // refused for what it says, as in RAT-01
	}},
	{ID: "RAT-08", Also: []string{"RAT-09"}, Needs: suite.Own, Requests: 12, Run: func(c *suite.C) {
		c.Flood(10, "GET", "/requests", nil)
	}},
	{ID: "RAT-10", Needs: suite.Own, Allow: suite.Queue, Requests: 5, Takes: 12 * time.Second, Run: func(c *suite.C) {
		first := purge(c, c.E).Is(200)
		purge(c, c.E).Is(200)
		c.Given("RAT-06", func() { purge(c, c.E).Is(http.StatusTooManyRequests) })
		c.Until(first.Sent.Add(9 * time.Second))
		if a := purge(c, c.E); a.Code != http.StatusTooManyRequests {
			c.Before(a, first.Sent.Add(9900*time.Millisecond))
			a.Is(http.StatusTooManyRequests)
		}
		c.Until(first.Received.Add(10*time.Second + c.Grace()/4))
		purge(c, c.E).Is(200)
	}},
	{ID: "RAT-18", Needs: suite.Own, Allow: suite.Queue, Requests: 15, Run: func(c *suite.C) {
		c.Given("RAT-08", func() { c.Flood(10, "GET", "/requests", nil) })
		purge(c, c.E).Is(200)
		c.Get("/status/x").Is(404)
	}},
	{ID: "RAT-19", Needs: suite.Own | suite.Second, Allow: suite.Queue, Requests: 6, Run: func(c *suite.C) {
		c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
		purge(c, c.E2).Is(200)
	}},
	{ID: "RAT-20", Needs: suite.Own | suite.UserKey, Allow: suite.Queue, Requests: 6, Run: func(c *suite.C) {
		c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
		c.Post("/purge-queue", nil, suite.As(c.UserKey())).Is(200)
	}},
	{ID: "RAT-21", Needs: suite.LocalOnly | suite.V2, Allow: suite.Create | suite.Queue | suite.Load, Requests: 220, Jobs: 8, Takes: 5 * time.Second, Run: func(c *suite.C) {
		c.E = c.NewEndpoint(8)
		var jobs []*suite.Job
		for range 8 {
			jobs = append(jobs, c.Run(suite.Sleep(time.Hour)))
		}
		for _, j := range jobs {
			j.Running()
		}
		// 20 for each running worker are more than the 100 of the base.
		c.Burst(160, "POST", "/cancel/x", nil)
		c.Post("/cancel/x", nil).Is(http.StatusTooManyRequests)
	}},
	{ID: "RAT-22", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 1010, Run: func(c *suite.C) {
		before := c.Get("/health").Is(200).Object("jobs")
		c.Burst(1000, "POST", "/run", nil)
		c.Given("RAT-02", func() { c.Post("/run", suite.Submission(suite.Echo())).Is(http.StatusTooManyRequests) })
		c.Get("/health").Is(200).Equal("jobs", before)
	}},
	{ID: "RAT-23", Needs: suite.Own, Allow: suite.Queue, Requests: 5, Takes: 12 * time.Second, Run: func(c *suite.C) {
		c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
		after := purge(c, c.E).Header.Get("Retry-After")
		if after == "" {
			c.Observe("no Retry-After")
			return
		}
		seconds, err := strconv.Atoi(after)
		c.Observe("Retry-After in seconds: %v", err == nil)
		c.Should(func() {
			c.Expect(err == nil && seconds >= 1, "Retry-After: seconds, 1 or more", "%s", after)
			c.Sleep(time.Duration(seconds) * time.Second)
			purge(c, c.E).Is(200)
		})
	}},
	{ID: "RAT-24", Needs: suite.V2, Run: func(c *suite.C) {
		a := c.V2("GET", "/templates", nil).Is(200)
		c.Observe("RateLimit-Policy: %s", a.Header.Get("RateLimit-Policy"))
	}},
}

func purge(c *suite.C, endpoint string) *suite.Answer {
	return c.Job("POST", endpoint, "/purge-queue", nil)
}

// concurrencyLimits are how many at a time.
var concurrencyLimits = []suite.Case{
	{ID: "RAT-11", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 420, Jobs: 420, Run: func(c *suite.C) {
		hold(c, 400, "POST", "/runsync", suite.Submission(suite.Sleep(time.Hour)))
	}},
	{ID: "RAT-12", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 220, Run: func(c *suite.C) {
		hold(c, 200, "POST", "/run", nil, suite.Stalled())
	}},
	{ID: "RAT-14", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 420, Jobs: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Hour))
		j.Running()
		hold(c, 400, "GET", "/stream/"+j.ID, nil)
	}},
	{ID: "RAT-15", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2400, Jobs: 1200, Takes: 2 * time.Minute, Run: func(c *suite.C) {
		// A deployment that has a job to change takes longer than one that has not,
		// so that requests meet also where it is quicker than the sender.
		cancel := make([]string, 100)
		const tries = 12 // on an overloaded machine three in ten pass without a meeting
		for range tries {
			for i := range cancel {
				cancel[i] = "/cancel/" + c.Run(suite.Sleep(time.Hour)).ID
			}
			if c.Together("POST", cancel)[http.StatusTooManyRequests] > 0 {
				return
			}
			c.Sleep(11 * time.Second) // the next window
		}
		c.Fail(fmt.Sprintf("100 requests at the same moment, %d times, and no 429", tries), "429 to those that are too many at a time")
	}},
	{ID: "RAT-16", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 420, Jobs: 420, Run: func(c *suite.C) {
		hold(c, 400, "POST", "/openai/v1/x", suite.Sleep(time.Hour))
	}},
	{ID: "RAT-17", Needs: suite.Own | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 30, Jobs: 16, Run: func(c *suite.C) {
		// A list that is longer than the buffers of a connection, and that nobody
		// reads, keeps its request open.
		var last *suite.Job
		for range 16 {
			last = c.Run(suite.Fail(suite.M{"bytes": 1_000_000}))
		}
		last.Failed() // and so have those before it: there is one worker
		hold(c, 2, "GET", "/requests", nil, suite.Unread())
	}},
}

// refusal is how long a refusal may take of a deployment that hundreds of
// requests keep busy, on the wall.
const refusal = 5 * time.Second

// hold keeps so many requests open, which must not be answered, and then some
// more, of which one must be answered 429.
func hold(c *suite.C, limit int, method, path string, body any, o ...suite.Option) {
	var open []*suite.Pending
	defer func() {
		for _, p := range open {
			p.Drop()
		}
	}()
	for range limit {
		open = append(open, c.Start(method, path, body, append(o, suite.Quiet())...))
	}
	for range max(limit/10, 4) {
		p := c.Start(method, path, body, o...)
		open = append(open, p)
		for wait := time.Millisecond; wait < 50*time.Millisecond && p.Open(); wait *= 2 {
			time.Sleep(wait)
		}
		if !p.Open() {
			p.Answer().Is(http.StatusTooManyRequests)
			stillOpen(c, open, limit)
			return
		}
	}
	for late := time.Now().Add(refusal); time.Now().Before(late); {
		for _, p := range open[limit:] {
			if !p.Open() {
				p.Answer().Is(http.StatusTooManyRequests)
				stillOpen(c, open, limit)
				return
			}
		}
	}
	c.Fail(strconv.Itoa(len(open))+" requests are open at a time", "429 to those above "+strconv.Itoa(limit))
}

// stillOpen expects that as many as the limit allows are held, when one was
// refused: a refusal of them all is no limit.
func stillOpen(c *suite.C, open []*suite.Pending, limit int) {
	n := 0
	for i, p := range open {
		// The first look gives those that are on their way a moment.
		if i == 0 && p.Open() || i > 0 && !p.Over() {
			n++
		}
	}
	c.Expect(n >= limit, strconv.Itoa(limit)+" requests that are held", "429 to one more than %d", n)
}
