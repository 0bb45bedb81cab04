package cases

import (
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// rateRefusals are requests that do something to jobs, and are answered 429: they
// are not carried out. The other operations are in RAT-22.
var rateRefusals = []suite.Case{
	{ID: "RAT-22-cancel", Needs: suite.Idle, Allow: suite.Queue | suite.Load, Requests: 110, Jobs: 1, Run: func(c *suite.C) {
		waiting := c.Run(suite.Echo())
		c.Given("RAT-05", func() {
			c.Burst(100, "POST", "/cancel/x", nil)
			waiting.Cancel().Is(http.StatusTooManyRequests)
		})
		waiting.Status().Is(200).Equal("status", suite.InQueue)
	}},
	{ID: "RAT-22-purge", Needs: suite.Idle, Allow: suite.Queue, Requests: 8, Jobs: 1, Run: func(c *suite.C) {
		purge(c, c.E).Is(200)
		purge(c, c.E).Is(200)
		waiting := c.Run(suite.Echo())
		c.Given("RAT-06", func() { purge(c, c.E).Is(http.StatusTooManyRequests) })
		waiting.Status().Is(200).Equal("status", suite.InQueue)
	}},
	{ID: "RAT-22-runsync", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 450, Jobs: 400, Run: func(c *suite.C) {
		refusedJob(c, "RAT-11", "/runsync", suite.Submission(suite.Echo(), suite.Policy(suite.M{"lowPriority": true})))
	}},
	{ID: "RAT-22-openai", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 450, Jobs: 400, Run: func(c *suite.C) {
		routed(c)
		refusedJob(c, "RAT-16", "/openai/v1/x", suite.Sleep(time.Hour))
	}},
	{ID: "RAT-22-stream", Needs: suite.Own | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 1500, Jobs: 2, Run: func(c *suite.C) {
		streamed := c.Run(suite.Stream(3, 0))
		streamed.Completed()
		waiting := c.Blocker(time.Hour)
		open := fill(c, "RAT-14", 400, "GET", "/stream/"+waiting.ID, nil)
		c.Given("RAT-14", func() { streamed.Stream().Is(http.StatusTooManyRequests) })
		drop(open)
		// The deployment notices a little later, on the wall, that they are gone.
		for late := time.Now().Add(refusal); c.Get("/stream/"+c.Nonce()).Code == http.StatusTooManyRequests && time.Now().Before(late); {
			time.Sleep(5 * time.Millisecond)
		}
		chunks := streamed.Stream().Is(200).Chunks()
		c.Expect(len(chunks) == 3, "3 chunks, which nobody has read", "%d chunks", len(chunks))
	}},
}

// refusedJob expects that a submission that is one too many at a time makes no job.
func refusedJob(c *suite.C, clause, path string, body any) {
	open := fill(c, clause, 400, "POST", path, body)
	defer drop(open)
	c.Given(clause, func() { c.Post(path, body).Is(http.StatusTooManyRequests) })
	c.Sleep(4 * time.Second) // /health may be a little late
	a := c.Get("/health").Is(200)
	jobs := int(a.Int("jobs.inQueue") + a.Int("jobs.inProgress"))
	c.Expect(jobs <= len(open), "a job of each request that is open", "%d jobs of %d requests", jobs, len(open))
}

// fill opens as many requests as are allowed at a time, and returns those that are
// open.
func fill(c *suite.C, clause string, limit int, method, path string, body any) (open []*suite.Pending) {
	for range limit + 20 {
		open = append(open, c.Start(method, path, body, suite.Quiet()))
	}
	held := open
	for late := time.Now().Add(refusal); len(held) > limit && time.Now().Before(late); time.Sleep(time.Millisecond) {
		held = nil
		for _, p := range open {
			if !p.Over() {
				held = append(held, p)
			}
		}
	}
	answered := false
	c.Given(clause, func() {
		for _, p := range open {
			if !p.Over() {
				continue
			}
			a := p.Answer()
			if answered = answered || a.Code/100 == 2; !answered {
				a.Is(http.StatusTooManyRequests)
			}
		}
	})
	if answered || len(held) != limit {
		drop(open)
		c.Skip("not all of %d requests are open at a time: %d", limit, len(held))
	}
	return held
}

func drop(open []*suite.Pending) {
	for _, p := range open {
		p.Drop()
	}
}
