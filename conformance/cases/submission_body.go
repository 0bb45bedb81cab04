package cases

import (
	"time"

	. "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite" //nolint:revive,staticcheck // a case reads like the contract
)

// The body of a submission, but for its policy.
var submissionBodies = []Case{
	{ID: "SUB-02", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.RunSync(Echo()) // an object is accepted
		for _, input := range []any{"text", []any{M{}}, 7, nil, true} {
			for _, path := range []string{"/run", "/runsync"} {
				submit(c, path, M{"input": input}).BadRequest()
			}
		}
	}},
	{ID: "SUB-03", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.JobOf(c.Post("/run", M{"input": M{}}).Is(200))
	}},
	{ID: "SUB-04", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.RunSync(Echo())
		for _, path := range []string{"/run", "/runsync"} {
			for _, body := range []string{`{"input": {"op": "echo"`, ``, `[]`, `[{"input": {}}]`, `nonsense`} {
				c.Post(path, nil, Raw(body)).BadRequest()
			}
		}
	}},
	{ID: "SUB-05", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		input := Echo(M{
			"policy": M{"ttl": "not a policy"}, "webhook": 5, "s3Config": "none", "id": "mine", "input": M{"input": M{}}, "output": nil,
			"": "empty", "ключ": []any{1.5, nil, "\u0000\"\\"}, "status": "FAILED",
		})
		a := c.Post("/runsync", Submission(input)).Is(200)
		c.JobOf(a).Await(Completed).Equal("output", input)
	}},
	{ID: "SUB-06", Needs: Endpoint | Hooks, Allow: Queue, Jobs: 4, Seconds: 4, Run: func(c *C) {
		s3 := M{"s3Config": s3Config(c)}
		for _, more := range []M{{}, {"webhook": c.Box().URL}, {"policy": M{"ttl": 60_000}}, s3} {
			c.JobOf(c.Post("/run", Submission(Echo(), more)).Is(200)).Await(Completed)
		}
	}},
	{ID: "SUB-07", Needs: Endpoint, Run: func(c *C) {
		for _, more := range []M{
			{"webhook": 5}, {"policy": "soon"}, {"s3Config": []any{}}, {"s3Config": M{"accessId": 5}}, {"s3Config": M{"bucketName": M{}}},
		} {
			submit(c, "/run", Submission(Echo(), more)).BadRequest()
		}
	}},
	{ID: "SUB-08", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.Observe("%d", submit(c, "/run", Submission(Echo(), M{"unknown": true})).Code)
	}},
	{ID: "SUB-29", Needs: Endpoint, Allow: Queue, Jobs: 1, Seconds: 1, Run: func(c *C) {
		c.JobOf(c.Post("/run", Submission(Echo(), M{"s3Config": s3Config(c)})).Is(200)).Await(Completed)
	}},
	{ID: "SUB-30", Needs: Endpoint | Hooks, Allow: Queue, Jobs: 1, Takes: time.Second, Seconds: 1, Run: func(c *C) {
		box, s3 := c.Box(), s3Config(c)
		j := c.Run(Stream(2, 0), M{"s3Config": s3, "webhook": box.URL})
		secret, _ := s3["accessSecret"].(string)
		j.Answer.Lacks(secret)
		j.Completed().Lacks(secret)
		j.Stream().Lacks(secret)
		c.Get("/requests").Lacks(secret)
	}},
}

// submit sends a submission that may be refused; a job that it makes is noted.
func submit(c *C, path string, body any) *Answer {
	a := c.Post(path, body)
	if id, ok := a.Find("id"); ok && a.Code == 200 {
		if _, ok := id.(string); ok {
			c.JobOf(a)
		}
	}
	return a
}

func s3Config(c *C) M {
	return M{"accessId": "id", "accessSecret": c.Secret("S3_SECRET"), "bucketName": "bucket", "endpointUrl": "https://s3.example.com"}
}
