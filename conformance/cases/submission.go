package cases

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// submissionCases judge the section "Job submission body", except the policy.
var submissionCases = section(suite.Case{Level: suite.Must, Needs: suite.AnyEndpoint}, []suite.Case{
	{ID: "SUB-01", Source: "Job submission body, input", Statement: "A submission without an input returns 400.", Requests: 5, Run: func(c *suite.C) {
		requireDistinctErrors(c)
		expectSubmissionRefused(c, suite.M{})
		expectSubmissionRefused(c, suite.M{"policy": suite.M{}})
	}},
	{ID: "SUB-01-chunked", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, Requests: 15, Seconds: 30, Run: judgeRefusedBodies(`{}`, `{"policy":{}}`)},
	{ID: "SUB-02", Source: "Job submission body, input", Statement: "An input that isn't an object returns 400.",
		Allow: suite.Queue, Jobs: 1, Seconds: 1, Requests: 20, Run: func(c *suite.C) {
			c.RunSync(suite.Echo()) // objects are accepted
			for _, input := range []any{"text", "", []any{suite.M{}}, []any{}, 7, 0, nil, true, false} {
				expectSubmissionRefused(c, suite.M{"input": input})
			}
		}},
	{ID: "SUB-02-chunked", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, Requests: 20, Seconds: 30, Run: judgeRefusedBodies(
		`{"input":"text"}`, `{"input":[{}]}`, `{"input":7}`, `{"input":null}`, `{"input":true}`,
	)},
	{ID: "SUB-03", Level: suite.Should, Source: "Job submission body, input", Statement: "An empty object is a valid input.",
		Allow: suite.Queue, Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
			c.JobOf(c.Post("/run", suite.M{"input": suite.M{}}).Is(200))
			c.JobOf(c.Post("/runsync", suite.M{"input": suite.M{}}).Is(200))
		}},
	{ID: "SUB-04", Source: "Errors, 400", Statement: "A submission that isn't a JSON object returns 400.",
		Allow: suite.Queue, Jobs: 1, Seconds: 1, Requests: 16, Run: func(c *suite.C) {
			c.RunSync(suite.Echo())
			for _, body := range []string{`{"input": {"op": "echo"`, ``, `[]`, `[{"input": {}}]`, `nonsense`, `null`, `"text"`} {
				expectSubmissionRefused(c, nil, suite.Raw(body))
			}
		}},
	{ID: "SUB-04-text", Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 1, Seconds: 1, Requests: 60, Run: func(c *suite.C) {
		c.RunSync(suite.Echo())
		paths, step := []string{"/run"}, 4 // every fourth body
		if c.IncludeIfLocal("all malformed bodies") {
			paths, step = []string{"/run", "/runsync"}, 1
		}
		for i := 0; i < len(notObjects); i += step {
			for _, path := range paths {
				submit(c, path, nil, suite.Raw(notObjects[i])).BadRequest()
			}
		}
		// JSON has no words for these numbers, but some parsers accept them.
		c.Should(func() {
			for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
				submit(c, "/run", nil, suite.Raw(`{"input":{"op":"echo","x":`+word+`}}`)).BadRequest()
			}
		})
	}},
	{ID: "SUB-04-chunked", Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, Requests: 20, Seconds: 30, Run: judgeRefusedBodies(
		`{"input": {"op": "echo"}`, ``, `[]`, `[{"input": {}}]`, `nonsense`, `"text"`,
	)},
	{ID: "SUB-05", Source: "Job submission body, input", Statement: "The handler gets the input unchanged, whatever the names of its members.",
		Clauses: []string{"JOB-09"}, Allow: suite.Queue, Jobs: 3, Seconds: 3, Run: func(c *suite.C) {
			g := generator{c.Random()}
			inputs := []suite.M{suite.Echo(suite.M{
				"policy": suite.M{"ttl": "not a policy"}, "webhook": 5, "s3Config": "none", "id": "mine", "input": suite.M{"input": suite.M{}}, "output": nil,
				"": "empty", "ключ": []any{1.5, nil, "\u0000\"\\"}, "status": "FAILED",
			})}
			for range localOrRemote(c, 2, 1) {
				inputs = append(inputs, echoAll(g))
			}
			for _, input := range inputs {
				expectOutput(c, submissionText(g, input), input)
			}
		}},
	{ID: "SUB-05-run", Clauses: []string{"JOB-09"}, Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 4, Seconds: 4, Requests: 25, Run: func(c *suite.C) {
		g := generator{c.Random()}
		var inputs []suite.M
		var jobs []*suite.Job
		for range localOrRemote(c, 4, 1) {
			inputs = append(inputs, echoAll(g))
			jobs = append(jobs, c.JobOf(c.Post("/run", nil, suite.Raw(submissionText(g, inputs[len(jobs)]))).Is(200)))
		}
		for i, job := range jobs { // each job has its own input
			job.Await(suite.Completed).Equal("output", inputs[i])
		}
	}},
	{ID: "SUB-05-sizes", Clauses: []string{"JOB-09"}, Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 7, Seconds: 7, Requests: 40, Run: func(c *suite.C) {
		g := generator{c.Random()}
		sizes := []int{1 << 16, 1 << 20}
		if c.IncludeIfLocal("inputs of all sizes") {
			sizes = []int{1<<16 - 1, 1 << 16, 1<<16 + 1, 1<<17 + 1, 1<<18 + 1, 1<<20 + 1, 1<<21 + 1}
		}
		for i, size := range sizes {
			text, input := inputOfSize(g, size)
			path := []string{"/run", "/runsync"}[i%2]
			c.JobOf(c.Post(path, nil, suite.Raw(`{"input":`+text+`}`)).Is(200)).Await(suite.Completed).Equal("output", input)
		}
	}},
	{ID: "SUB-05-again", Needs: suite.AnyEndpoint, Allow: suite.Queue, Jobs: 1, Seconds: 2, WaitTime: time.Minute, Requests: 40, Run: func(c *suite.C) {
		g := generator{c.Random()}
		input := suite.Crash(echoAll(g), suite.M{"op": "crash", "times": 1})
		job := c.JobOf(c.Post("/run", nil, suite.Raw(submissionText(g, input))).Is(200))
		eventually(c, func() bool {
			status := job.Status().ValueOrNil("status")
			return status != suite.InQueue && status != suite.InProgress
		})
		a := job.Status().Is(200)
		c.SkipIf(a.ValueOrNil("status") != suite.Completed, "a job whose worker died isn't retried, or not yet")
		a.Equal("output", input)
	}},
	{ID: "SUB-06", Source: "Job submission body", Statement: "webhook, policy and s3Config are optional.",
		Needs: suite.AnyEndpoint | suite.Webhooks, Allow: suite.Queue, Jobs: 5, Seconds: 5, Run: func(c *suite.C) {
			s3 := suite.M{"s3Config": s3Config(c)}
			for i, members := range []suite.M{{}, {"webhook": c.Box().URL}, {"policy": suite.M{"ttl": 600_000}}, s3, {"policy": suite.M{}}} {
				c.JobOf(c.Post([]string{"/run", "/runsync"}[i%2], suite.Submission(suite.Echo(), members)).Is(200)).Await(suite.Completed)
			}
		}},
	{ID: "SUB-07", Level: suite.Should, Source: "Job submission body", Statement: "A submission with a member of the wrong type returns 400.", Requests: 6, Run: func(c *suite.C) {
		requireDistinctErrors(c)
		for i, members := range []suite.M{{"webhook": 5}, {"policy": "soon"}, {"s3Config": suite.M{"accessId": 5}}, {"s3Config": []any{}}} {
			submit(c, []string{"/runsync", "/run"}[i%2], suite.Submission(suite.Echo(), members)).BadRequest()
		}
	}},
	{ID: "SUB-07-chunked", Supplementary: true, Needs: suite.OwnEndpoint, Allow: suite.Queue, Jobs: 2, Requests: 30, Seconds: 30, Run: judgeRefusedBodies(
		`{"input":{},"webhook":true}`, `{"input":{},"webhook":5}`, `{"input":{},"webhook":{}}`, `{"input":{},"policy":[]}`, `{"input":{},"policy":5}`, `{"input":{},"policy":"soon"}`, `{"input":{},"s3Config":"none"}`, `{"input":{},"s3Config":[]}`,
		`{"input":{},"s3Config":{"accessId":5}}`, `{"input":{},"s3Config":{"accessSecret":5}}`, `{"input":{},"s3Config":{"bucketName":5}}`, `{"input":{},"s3Config":{"endpointUrl":5}}`,
	)},
	{ID: "SUB-08", Level: suite.Unspec, Source: "Job submission body", Statement: "How unknown members are handled.", Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.Observe("%d", submit(c, "/run", suite.Submission(suite.Echo(), suite.M{"unknown": true})).Code)
	}},
	{ID: "SUB-29", Source: "Job submission body, s3Config", Statement: "s3Config with its four strings is accepted.", Allow: suite.Queue, Jobs: 1, Seconds: 1, Run: func(c *suite.C) {
		c.JobOf(c.Post("/run", suite.Submission(suite.Echo(), suite.M{"s3Config": s3Config(c)})).Is(200)).Await(suite.Completed)
	}},
	{ID: "SUB-30", Level: suite.Should, Source: "Job submission body, s3Config", Statement: "No response contains the secrets of s3Config.",
		Allow: suite.Queue, Jobs: 2, Seconds: 2, Run: func(c *suite.C) {
			s3 := s3Config(c)
			j := c.Run(suite.Stream(2, 0), suite.M{"s3Config": s3})
			secret, _ := s3["accessSecret"].(string)
			j.Answer.NotContains(secret)
			j.AwaitCompleted().NotContains(secret)
			for _, a := range []*suite.Answer{j.Stream(), j.Cancel(), j.Retry(), submit(c, "/runsync", suite.Submission(suite.Echo(), suite.M{"s3Config": s3}))} {
				a.NotContains(secret)
			}
			c.Get("/requests").NotContains(secret)
		}},
})

// requireDistinctErrors expects 404 for an unknown id. Otherwise a target that answers 400 to everything would
// pass the cases about malformed requests.
func requireDistinctErrors(c *suite.C) {
	malformed := false
	c.Given("JOB-40", func() { malformed = c.Get("/status/"+c.Nonce()).Is(404, 400).Code == 400 })
	if malformed { // a job id of another form is malformed to this target: use an unknown endpoint
		c.Given("ERR-02", func() { c.Job("POST", suite.SimilarID(c.Endpoint), "/run", suite.Submission(suite.Echo())).Is(404) })
	}
}

// submit submits a body that may be refused. It records a created job.
func submit(c *suite.C, path string, body any, o ...suite.Option) *suite.Answer {
	a := c.Post(path, body, o...)
	if id, ok := a.ValueOrNil("id").(string); ok && id != "" && a.Code/100 == 2 {
		c.JobOf(a)
	}
	return a
}

func expectSubmissionRefused(c *suite.C, body any, o ...suite.Option) {
	for _, path := range []string{"/run", "/runsync"} {
		submit(c, path, body, o...).BadRequest()
	}
}

func s3Config(c *suite.C) suite.M {
	return suite.M{"accessId": "id", "accessSecret": c.Secret("S3_SECRET"), "bucketName": "bucket", "endpointUrl": "https://s3.example.com"}
}
