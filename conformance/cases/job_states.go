package cases

import (
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// What a submission answers, and what a job is.
var jobFields = []suite.Case{
	{ID: "JOB-02", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Takes: 2 * time.Second, Seconds: 30, Run: func(c *suite.C) {
		c.Blocker(30 * time.Second)
		j := c.Run(suite.Echo())
		j.Status().Is(200).Equal("status", suite.InQueue)
		c.Sleep(2 * time.Second)
		j.Status().Is(200).Equal("status", suite.InQueue)
	}},
	{ID: "JOB-04", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 100, Requests: 100, Seconds: 100, Run: func(c *suite.C) {
		ids := map[string]bool{}
		n := 5
		if c.Local() {
			n = 100
		}
		for range n {
			id := c.Run(suite.Echo()).ID
			c.Expect(!ids[id], "an id of its own", "the id %s again", id)
			ids[id] = true
		}
	}},
	{ID: "JOB-06", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		delay := c.RunSync(suite.Echo()).Answer.Int("delayTime")
		c.Expect(delay >= 0, "a time that is not negative", "delayTime = %d", delay)
	}},
	{ID: "JOB-07", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		took := c.RunSync(suite.Echo()).Answer.Int("executionTime")
		c.Expect(took >= 0, "a time that is not negative", "executionTime = %d", took)
	}},
	{ID: "JOB-08", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Takes: 2 * time.Second, Seconds: 2, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(2 * time.Second))
		j.Running()
		c.Sleep(2 * time.Second)
		switch took := j.Completed().Number("executionTime"); {
		case took >= 2000 && took < 60_000:
			c.Observe("milliseconds")
		case took >= 2 && took < 60:
			c.Observe("seconds")
		default:
			c.Observe("%v for 2 s", took)
		}
	}},
	{ID: "JOB-09", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 14, Requests: 20, Seconds: 14, Run: func(c *suite.C) {
		for _, v := range []any{
			suite.M{"a": suite.M{"b": []any{1, "two", nil, true}}}, []any{1, []any{}, suite.M{}}, "text", "", "ünï – 漢字 🚀", int64(9007199254740991), -1, 1e-7, 0, true, false, suite.M{}, []any{},
		} {
			c.RunSync(suite.Sleep(0, suite.M{"output": v})).Answer.Equal("output", v)
		}
		c.RunSync(suite.Sleep(0, suite.M{"output": nil})).Answer.Absent("output")
	}},
	{ID: "JOB-10", Needs: suite.Own, Allow: suite.Queue, Jobs: 3, Seconds: 30, Run: func(c *suite.C) {
		first := c.RunSync(suite.Echo()).Answer.Value("output")
		c.Blocker(30 * time.Second)
		waits := c.Run(suite.Echo(suite.M{"nonce": c.Nonce()})).InQueue()
		output, _ := waits.Find("output")
		c.Expect(output == nil || !suite.Same(output, first), "no output of another job", "the output %s", suite.Text(output))
	}},
	{ID: "JOB-11", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
		c.RunSync(suite.Echo()) // a worker is idle now
		a := c.Post("/run", suite.Submission(suite.Echo())).Is(200).Equal("status", suite.InQueue)
		c.JobOf(a).Await(suite.Completed)
	}},
	{ID: "JOB-12", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 10, Run: func(c *suite.C) {
		a := c.Post("/run", suite.Submission(suite.Sleep(30*time.Second))).Is(200)
		c.JobOf(a)
		took := a.Received.Sub(a.Sent)
		c.Expect(took < 10*time.Second, "an answer long before the 30 s of the job are over", "an answer after %s", took)
	}},
	{ID: "JOB-13", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 2, Takes: 4 * time.Second, Seconds: 4, Run: func(c *suite.C) {
		c.Run(suite.Echo()).Completed() // a worker is ready now
		begin := c.Now()
		p := c.Start("POST", "/runsync", suite.Submission(suite.Sleep(3*time.Second)))
		p.Until(begin.Add(2 * time.Second))
		p.Held(begin.Add(3 * time.Second))
		p.Sleep(2 * time.Second)
		p.Answer().Is(200).Equal("status", suite.Completed)
	}},
	{ID: "JOB-14", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		nonce := c.Nonce()
		a := c.Post("/runsync", suite.Submission(suite.Echo(suite.M{"nonce": nonce}))).Is(200).Equal("status", suite.Completed).Equal("output.nonce", nonce)
		a.Str("id")
		a.Int("delayTime")
		a.Int("executionTime")
	}},
	{ID: "JOB-40", Needs: suite.Endpoint, Requests: 6, Run: func(c *suite.C) {
		c.Get("/health").Is(200) // the endpoint is there; the job is not
		id := c.Nonce()
		for _, op := range []string{"GET /status/", "GET /stream/", "POST /cancel/", "POST /retry/"} {
			method, path := split(op)
			c.Job(method, c.E, path+id, nil).Is(404, 400) // it may have the wrong form
		}
	}},
	{ID: "JOB-40-form", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Requests: 16, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Echo())
		j.Completed()
		for _, op := range []string{"GET /status/", "GET /stream/", "POST /cancel/", "POST /retry/"} {
			method, path := split(op)
			c.Job(method, c.E, path+suite.Resembling(j.ID), nil).Is(404)
		}
	}},
	{ID: "JOB-41", Needs: suite.Endpoint | suite.Second, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		j := c.RunSync(suite.Echo(suite.M{"nonce": c.Nonce()}))
		j.Status().Is(200)
		c.Job("GET", c.E2, "/status/"+j.ID, nil).Is(404, 403)
	}},
	{ID: "JOB-42", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Requests: 25, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Echo(suite.M{"nonce": c.Nonce()}))
		first := j.Completed()
		for range 20 {
			again := j.Status().Is(200)
			for _, field := range []string{"id", "status", "output", "delayTime", "executionTime"} {
				again.Equal(field, first.Value(field)) // others may tell of the moment
			}
		}
	}},
	{ID: "JOB-43", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Echo())
		a := j.Completed().Equal("id", j.ID)
		a.Int("delayTime")
		a.Int("executionTime")
	}},
	{ID: "JOB-44", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Takes: 17 * time.Second, Seconds: 60, Run: func(c *suite.C) {
		c.Blocker(60 * time.Second)
		j := c.Run(suite.Echo())
		set := c.Get("/status/" + j.ID + "?ttl=10000").Is(200)
		c.Until(j.Answer.Sent.Add(9 * time.Second))
		j.Status().Before(j.Answer.Sent.Add(10 * time.Second)).Is(200)
		during(set).later(10*time.Second).isGone(c, j) // from where it counts, nothing says
	}},
	{ID: "JOB-45", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Seconds: 60, Run: func(c *suite.C) {
		c.Blocker(60 * time.Second)
		j := c.Run(suite.Echo())
		for _, ttl := range []string{"6000", "9999", "604800001", "abc"} {
			c.Observe("ttl=%s: %d", ttl, c.Get("/status/"+j.ID+"?ttl="+ttl).Code)
		}
	}},
	{ID: "JOB-46", Needs: suite.Own, Allow: suite.Queue, Jobs: 2, Requests: 20, Seconds: 30, Run: func(c *suite.C) {
		blocker := c.Blocker(30 * time.Second)
		j := c.Run(suite.Echo())
		for _, op := range []string{"GET /run", "GET /runsync", "GET /cancel/" + j.ID, "GET /retry/" + j.ID, "GET /purge-queue", "POST /health", "POST /status/" + j.ID, "POST /stream/" + j.ID} {
			method, path := split(op)
			c.Job(method, c.E, path, nil).Refused()
		}
		j.Status().Before(blocker.StartedAfter.Add(30*time.Second)).Is(200).Equal("status", suite.InQueue)
	}},
}

func split(op string) (method, path string) {
	if _, err := fmt.Sscan(op, &method, &path); err != nil {
		panic(err)
	}
	return method, path
}
