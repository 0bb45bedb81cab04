package cases

import (
	"fmt"
	"slices"
	"time"

	. "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite" //nolint:revive,staticcheck // a case reads like the contract
)

// What a submission answers, and what a job is.
var jobFields = []Case{
	{ID: "JOB-02", Needs: Own, Allow: Queue, Jobs: 2, Takes: 2 * time.Second, Seconds: 30, Run: func(c *C) {
		c.Blocker(30 * time.Second)
		j := c.Run(Echo())
		j.Status().Is(200).Equal("status", InQueue)
		c.Sleep(2 * time.Second)
		j.Status().Is(200).Equal("status", InQueue)
	}},
	{ID: "JOB-04", Needs: Endpoint, Allow: Queue, Jobs: 100, Requests: 100, Seconds: 100, Run: func(c *C) {
		ids := map[string]bool{}
		n := 5
		if c.Local() {
			n = 100
		}
		for range n {
			id := c.Run(Echo()).ID
			c.Expect(!ids[id], "an id of its own", "the id %s again", id)
			ids[id] = true
		}
	}},
	{ID: "JOB-05", Needs: Endpoint, Allow: Queue, Jobs: 2, Takes: 2 * time.Second, Seconds: 3,
		Watch: func(w *Watched) string {
			if w.Status != "" && !slices.Contains(Statuses, w.Status) {
				return "the status " + w.Status
			}
			return ""
		},
		Run: func(c *C) {
			c.Run(Echo()).Completed()
			j := c.Run(Sleep(2 * time.Second))
			c.Given("JOB-02", func() { j.Await(Statuses...) })
			j.Running()
		}},
	{ID: "JOB-06", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		delay := c.RunSync(Echo()).Answer.Int("delayTime")
		c.Expect(delay >= 0, "a time that is not negative", "delayTime = %d", delay)
	}},
	{ID: "JOB-07", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		took := c.RunSync(Echo()).Answer.Int("executionTime")
		c.Expect(took >= 0, "a time that is not negative", "executionTime = %d", took)
	}},
	{ID: "JOB-08", Needs: Endpoint, Allow: Queue, Jobs: 1, Takes: 2 * time.Second, Seconds: 2, Run: func(c *C) {
		j := c.Run(Sleep(2 * time.Second))
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
	{ID: "JOB-09", Needs: Endpoint, Allow: Queue, Jobs: 14, Requests: 20, Seconds: 14, Run: func(c *C) {
		for _, v := range []any{
			M{"a": M{"b": []any{1, "two", nil, true}}}, []any{1, []any{}, M{}}, "text", "", "ünï – 漢字 🚀", 9007199254740991, -1, 1e-7, 0, true, false, M{}, []any{},
		} {
			c.RunSync(Sleep(0, M{"output": v})).Answer.Equal("output", v)
		}
		c.RunSync(Sleep(0, M{"output": nil})).Answer.Absent("output")
	}},
	{ID: "JOB-10", Needs: Own, Allow: Queue, Jobs: 3, Seconds: 30, Run: func(c *C) {
		c.RunSync(Echo())
		c.Blocker(30 * time.Second)
		c.Run(Echo(M{"nonce": c.Nonce()})).InQueue().Absent("output")
	}},
	{ID: "JOB-11", Needs: Endpoint, Allow: Queue, Jobs: 2, Seconds: 2, Run: func(c *C) {
		c.RunSync(Echo()) // a worker is idle now
		a := c.Post("/run", Submission(Echo())).Is(200).Equal("status", InQueue)
		c.JobOf(a).Await(Completed)
	}},
	{ID: "JOB-12", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 5, Run: func(c *C) {
		a := c.Post("/run", Submission(Sleep(5*time.Second))).Is(200)
		c.JobOf(a)
		took := a.Received.Sub(a.Sent)
		c.Expect(took < 2*time.Second, "an answer at once", "an answer after %s", took)
	}},
	{ID: "JOB-13", Needs: Endpoint, Allow: Queue, Jobs: 2, Takes: 4 * time.Second, Seconds: 4, Run: func(c *C) {
		c.RunSync(Echo())
		p := c.Start("POST", "/runsync", Submission(Sleep(3*time.Second)))
		c.Sleep(2 * time.Second)
		if !p.Open() {
			p.Answer().Is(200).Equal("status", Completed)
			c.Fail("an answer after 2 s", "none before the 3 s of the job are over")
		}
		c.Sleep(2 * time.Second)
		p.Answer().Is(200).Equal("status", Completed)
	}},
	{ID: "JOB-14", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		nonce := c.Nonce()
		a := c.Post("/runsync", Submission(Echo(M{"nonce": nonce}))).Is(200).Equal("status", Completed).Equal("output.nonce", nonce)
		a.Str("id")
		a.Int("delayTime")
		a.Int("executionTime")
	}},
	{ID: "JOB-40", Needs: Endpoint, Run: func(c *C) {
		c.Get("/health").Is(200) // the endpoint is there; the job is not
		id := c.Nonce()
		for _, op := range []string{"GET /status/", "GET /stream/", "POST /cancel/", "POST /retry/"} {
			method, path := split(op)
			c.Job(method, c.E, path+id, nil).Is(404)
		}
	}},
	{ID: "JOB-41", Needs: Endpoint | Second, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		j := c.RunSync(Echo(M{"nonce": c.Nonce()}))
		j.Status().Is(200)
		c.Job("GET", c.E2, "/status/"+j.ID, nil).Is(404, 403)
	}},
	{ID: "JOB-42", Needs: Endpoint, Allow: Queue, Jobs: 1, Requests: 25, Seconds: 1, Run: func(c *C) {
		j := c.Run(Echo(M{"nonce": c.Nonce()}))
		first := j.Completed().Object("")
		for range 20 {
			j.Status().Is(200).Equal("", first)
		}
	}},
	{ID: "JOB-43", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		j := c.Run(Echo())
		a := j.Completed().Equal("id", j.ID)
		a.Int("delayTime")
		a.Int("executionTime")
	}},
	{ID: "JOB-44", Needs: Own, Allow: Queue, Jobs: 2, Takes: 17 * time.Second, Seconds: 60, Run: func(c *C) {
		c.Blocker(60 * time.Second)
		j := c.Run(Echo())
		c.Get("/status/" + j.ID + "?ttl=10000").Is(200)
		c.Sleep(9 * time.Second)
		j.Status().Is(200)
		c.Sleep(time.Second + c.Grace())
		j.Status().Is(404)
	}},
	{ID: "JOB-45", Needs: Own, Allow: Queue, Jobs: 2, Seconds: 60, Run: func(c *C) {
		c.Blocker(60 * time.Second)
		j := c.Run(Echo())
		for _, ttl := range []string{"6000", "9999", "604800001", "abc"} {
			c.Observe("ttl=%s: %d", ttl, c.Get("/status/"+j.ID+"?ttl="+ttl).Code)
		}
	}},
	{ID: "JOB-46", Needs: Own, Allow: Queue, Jobs: 2, Requests: 20, Seconds: 30, Run: func(c *C) {
		c.Blocker(30 * time.Second)
		j := c.Run(Echo())
		for _, op := range []string{"GET /run", "GET /runsync", "GET /cancel/" + j.ID, "GET /retry/" + j.ID, "GET /purge-queue", "POST /health", "POST /status/" + j.ID, "POST /stream/" + j.ID} {
			method, path := split(op)
			c.Job(method, c.E, path, nil).Refused()
		}
		j.Status().Is(200).Equal("status", InQueue)
	}},
}

func split(op string) (method, path string) {
	if _, err := fmt.Sscan(op, &method, &path); err != nil {
		panic(err)
	}
	return method, path
}
