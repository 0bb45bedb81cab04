package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestJobs(t *testing.T) {
	const finished = `{"id":"j-1","status":"COMPLETED","delayTime":12,"executionTime":34,"workerId":"w","output":{"b":[1,2],"a":null}}`
	input := json.RawMessage(`{"prompt":"<b>"}`)
	d := &deployment{}
	server := httptest.NewServer(d)
	defer server.Close()
	c := client(t, api.Settings{BaseURL: "http://elsewhere", QueueURL: server.URL + "/live/"})
	for _, test := range []struct {
		name   string
		answer string
		send   func() (any, error)
		sent   string // method, path, query
		body   string
		want   any
	}{
		{"run", `{"id":"j-1","status":"IN_QUEUE"}`,
			func() (any, error) { return c.Jobs.Run(t.Context(), "e", api.Submission{Input: input}) },
			"POST /live/v2/e/run", `{"input":{"prompt":"<b>"}}`, api.Job{ID: "j-1", Status: "IN_QUEUE"}},
		{"run with everything", `{"id":"j-1","status":"IN_QUEUE"}`,
			func() (any, error) {
				return c.Jobs.Run(t.Context(), "e", api.Submission{Input: input, Webhook: "http://hook",
					Policy:   &api.JobPolicy{ExecutionTimeout: new(int64(5000)), LowPriority: new(false), TTL: new(int64(10000))},
					S3Config: &api.S3Config{AccessID: "i", AccessSecret: "s", BucketName: "b", EndpointURL: "u"}})
			},
			"POST /live/v2/e/run", `{"input":{"prompt":"<b>"},"webhook":"http://hook","policy":{"executionTimeout":5000,"lowPriority":false,"ttl":10000},
				"s3Config":{"accessId":"i","accessSecret":"s","bucketName":"b","endpointUrl":"u"}}`, api.Job{ID: "j-1", Status: "IN_QUEUE"}},
		{"runsync", finished,
			func() (any, error) { return c.Jobs.RunSync(t.Context(), "e", api.Submission{Input: input}, 0) },
			"POST /live/v2/e/runsync", `{"input":{"prompt":"<b>"}}`,
			api.Job{ID: "j-1", Status: "COMPLETED", DelayTime: 12, ExecutionTime: 34, WorkerID: "w", Output: json.RawMessage(`{"b":[1,2],"a":null}`)}},
		{"runsync with a wait", `{"id":"j-1","status":"IN_PROGRESS"}`,
			func() (any, error) {
				return c.Jobs.RunSync(t.Context(), "e", api.Submission{Input: input}, 1500*time.Millisecond)
			},
			"POST /live/v2/e/runsync?wait=1500", `{"input":{"prompt":"<b>"}}`, api.Job{ID: "j-1", Status: "IN_PROGRESS"}},
		{"status", `{"id":"j-1","status":"FAILED","error":"boom","retries":2}`,
			func() (any, error) { return c.Jobs.Status(t.Context(), "e", "j-1") },
			"GET /live/v2/e/status/j-1", ``, api.Job{ID: "j-1", Status: "FAILED", Error: "boom", Retries: 2}},
		{"status with a strange error", `{"id":"j-1","status":"FAILED","error":{"type":"x"}}`,
			func() (any, error) { return c.Jobs.Status(t.Context(), "e", "j-1") },
			"GET /live/v2/e/status/j-1", ``, api.Job{ID: "j-1", Status: "FAILED", Error: `{"type":"x"}`}},
		{"cancel", `{"id":"j-1","status":"CANCELLED"}`,
			func() (any, error) { return c.Jobs.Cancel(t.Context(), "e", "j-1") },
			"POST /live/v2/e/cancel/j-1", ``, api.Job{ID: "j-1", Status: "CANCELLED"}},
		{"health", `{"jobs":{"completed":1,"failed":2,"inProgress":3,"inQueue":4,"retried":5},"workers":{"idle":6,"running":7,"throttled":8}}`,
			func() (any, error) { return c.Jobs.Health(t.Context(), "e") }, "GET /live/v2/e/health", ``, health()},
	} {
		t.Run(test.name, func(t *testing.T) {
			d.answers, d.seen = []http.HandlerFunc{answer(200, test.answer)}, nil
			got := must.Do(test.send())(t)
			same(t, got, test.want)
			sent := d.last(t)
			line := sent.method + " " + sent.path
			if sent.query != "" {
				line += "?" + sent.query
			}
			same(t, line, test.sent)
			if test.body == "" {
				same(t, sent.body, "")
			} else {
				sameJSON(t, sent.body, test.body)
			}
		})
	}
	same(t, c.Jobs.URLs("e"), api.RequestURLs{
		Run: server.URL + "/live/v2/e/run", RunSync: server.URL + "/live/v2/e/runsync", Status: server.URL + "/live/v2/e/status/{job_id}",
		Stream: server.URL + "/live/v2/e/stream/{job_id}", Cancel: server.URL + "/live/v2/e/cancel/{job_id}",
		Retry: server.URL + "/live/v2/e/retry/{job_id}", PurgeQueue: server.URL + "/live/v2/e/purge-queue", Health: server.URL + "/live/v2/e/health",
	})
}

func health() (h api.Health) {
	h.Jobs.Completed, h.Jobs.Failed, h.Jobs.InProgress, h.Jobs.InQueue, h.Jobs.Retried = 1, 2, 3, 4, 5
	h.Workers.Idle, h.Workers.Running, h.Workers.Throttled = 6, 7, 8
	return h
}

func TestJobStates(t *testing.T) {
	for status, finished := range map[string]bool{
		"IN_QUEUE": false, "IN_PROGRESS": false, "": false,
		"COMPLETED": true, "FAILED": true, "CANCELLED": true, "TIMED_OUT": true,
	} {
		must.Equal(t, (api.Job{Status: status}).Finished(), finished, status, "finished is", !finished)
	}
}

func TestSubmissionIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		fail http.HandlerFunc
		sent int
	}{
		"500":                    {answer(500, ``), 1},
		"lost":                   {hangUp, 1},
		"429":                    {answer(429, ``), 4},
		"503 with Retry-After":   {answer(503, ``, "Retry-After", "1"), 1},
		"accepted, without body": {answer(200, ``), 1},
		"accepted, without id":   {answer(200, `{"status":"IN_QUEUE"}`), 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, d := deployPiped(t, api.V2, c.fail)
			if _, err := client.Jobs.Run(t.Context(), "e", api.Submission{Input: json.RawMessage(`{}`)}); err == nil || len(d.requests()) != c.sent {
				t.Errorf("%s: %v after %d requests", name, err, len(d.requests()))
			}
		})
	}
}

// A RunSync may take longer than its wait, by the time-out of a request (10 s here).
func TestRunSyncTimeout(t *testing.T) {
	for _, c := range []struct {
		wait, takes time.Duration
		fine        bool
	}{
		{0, 99 * time.Second, true},
		{0, 101 * time.Second, false},
		{time.Second, 10 * time.Second, true},
		{time.Second, 12 * time.Second, false},
		{300 * time.Second, 309 * time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, _ := deployPiped(t, api.V2, func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(c.takes):
				case <-r.Context().Done():
				}
				answer(200, `{"id":"j","status":"COMPLETED"}`)(w, r)
			})
			_, err := client.Jobs.RunSync(t.Context(), "e", api.Submission{Input: json.RawMessage(`{}`)}, c.wait)
			must.Equal(t, err == nil, c.fine, "wait", c.wait, "taking", c.takes, err)
		})
	}
}
