package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// The body of a submission, but for its policy.
var submissionBodies = []suite.Case{
	{ID: "SUB-02", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Requests: 12, Run: func(c *suite.C) {
		c.RunSync(suite.Echo()) // an object is accepted
		for _, input := range []any{"text", []any{suite.M{}}, 7, nil, true} {
			for _, path := range []string{"/run", "/runsync"} {
				submit(c, path, suite.M{"input": input}).BadRequest()
			}
		}
	}},
	{ID: "SUB-03", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/run", suite.M{"input": suite.M{}}).Is(200))
	}},
	{ID: "SUB-04", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Requests: 12, Run: func(c *suite.C) {
		c.RunSync(suite.Echo())
		for _, path := range []string{"/run", "/runsync"} {
			for _, body := range []string{`{"input": {"op": "echo"`, ``, `[]`, `[{"input": {}}]`, `nonsense`} {
				c.Post(path, nil, suite.Raw(body)).BadRequest()
			}
		}
	}},
	{ID: "SUB-05", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		input := suite.Echo(suite.M{
			"policy": suite.M{"ttl": "not a policy"}, "webhook": 5, "s3Config": "none", "id": "mine", "input": suite.M{"input": suite.M{}}, "output": nil,
			"": "empty", "ключ": []any{1.5, nil, "\u0000\"\\"}, "status": "FAILED",
		})
		a := c.Post("/runsync", suite.Submission(input)).Is(200)
		c.JobOf(a).Await(suite.Completed).Equal("output", input)
	}},
	{ID: "SUB-06", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 4, Seconds: 4, Run: func(c *suite.C) {
		s3 := suite.M{"s3Config": s3Config(c)}
		for _, more := range []suite.M{{}, {"webhook": c.Box().URL}, {"policy": suite.M{"ttl": 60_000}}, s3} {
			c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), more)).Is(200)).Await(suite.Completed)
		}
	}},
	{ID: "SUB-07", Needs: suite.Endpoint, Requests: 7, Run: func(c *suite.C) {
		discerns(c)
		for _, more := range []suite.M{
			{"webhook": 5}, {"policy": "soon"}, {"s3Config": []any{}}, {"s3Config": suite.M{"accessId": 5}}, {"s3Config": suite.M{"bucketName": suite.M{}}},
		} {
			submit(c, "/run", suite.Submission(suite.Echo(), more)).BadRequest()
		}
	}},
	{ID: "SUB-08", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Observe("%d", submit(c, "/run", suite.Submission(suite.Echo(), suite.M{"unknown": true})).Code)
	}},
	{ID: "SUB-29", Needs: suite.Endpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), suite.M{"s3Config": s3Config(c)})).Is(200)).Await(suite.Completed)
	}},
	{ID: "SUB-30", Needs: suite.Endpoint | suite.Hooks, Allow: suite.Queue, Jobs: 1, Takes: time.Second, Seconds: 1, Run: func(c *suite.C) {
		box, s3 := c.Box(), s3Config(c)
		j := c.Run(suite.Stream(2, 0), suite.M{"s3Config": s3, "webhook": box.URL})
		secret, _ := s3["accessSecret"].(string)
		j.Answer.Lacks(secret)
		j.Completed().Lacks(secret)
		j.Stream().Lacks(secret)
		c.Get("/requests").Lacks(secret)
	}},
}

// discerns expects that a request with nothing wrong but the job's id is not
// answered like a malformed one: who refuses everything keeps no rule.
func discerns(c *suite.C) {
	malformed := false
	c.Given("JOB-40", func() { malformed = c.Get("/status/"+c.Nonce()).Is(404, 400).Code == 400 })
	if malformed { // the id may have had the wrong form
		c.Given("ERR-02", func() { c.Job("POST", suite.Resembling(c.E), "/run", suite.Submission(suite.Echo())).Is(404) })
	}
}

// submit sends a submission that may be refused; a job that it makes is noted.
func submit(c *suite.C, path string, body any) *suite.Answer {
	a := c.Post(path, body)
	if id, ok := a.Find("id"); ok && a.Code/100 == 2 {
		if _, ok := id.(string); ok {
			c.JobOf(a)
		}
	}
	return a
}

func s3Config(c *suite.C) suite.M {
	return suite.M{"accessId": "id", "accessSecret": c.Secret("S3_SECRET"), "bucketName": "bucket", "endpointUrl": "https://s3.example.com"}
}
