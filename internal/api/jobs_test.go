package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestJobs(t *testing.T) {
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
		{"status of a finished job", `{"id":"j-1","status":"COMPLETED","delayTime":12,"executionTime":34,"workerId":"w","output":{"b":[1,2],"a":null}}`,
			func() (any, error) { return c.Jobs.Status(t.Context(), "e", "j-1") }, "GET /live/v2/e/status/j-1", ``,
			api.Job{ID: "j-1", Status: "COMPLETED", DelayTime: 12, ExecutionTime: 34, WorkerID: "w", Output: json.RawMessage(`{"b":[1,2],"a":null}`)}},
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
			d.answers, d.received = []http.HandlerFunc{answer(200, test.answer)}, nil
			expectEqual(t, must.Do(test.send())(t), test.want)
			sent := d.last(t)
			expectEqual(t, strings.TrimSuffix(sent.method+" "+sent.path+"?"+sent.query, "?"), test.sent)
			if test.body == "" {
				expectEqual(t, sent.body, "")
			} else {
				expectSameJSON(t, sent.body, test.body)
				must.Hold(t, !strings.Contains(sent.body, `\u003c`), "a < is escaped:", sent.body)
			}
		})
	}
	expectEqual(t, c.Jobs.URLs("e"), api.RequestURLs{
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
		must.Equal(t, (api.Job{Status: status}).Finished(), finished, "is finished:", status)
	}
}

// A page of results that is too large is requested again with fewer results.
func TestLargeBatchResults(t *testing.T) {
	limits := []string{}
	c, _ := deploy(t, api.V2, func(w http.ResponseWriter, r *http.Request) {
		limit, offset := r.URL.Query().Get("limit"), r.URL.Query().Get("offset")
		limits = append(limits, limit)
		results := `{"requests":[{"id":"` + offset + `"}],"hasMore":` + strconv.FormatBool(offset == "0") + `}`
		if limit != "25" {
			results += strings.Repeat(" ", 64<<20)
		}
		answer(200, results)(w, r)
	})
	ids := ""
	must.Succeed(t, c.Jobs.BatchRequests(t.Context(), "e", "b", func(r api.BatchRequest) error {
		ids += r.ID
		return nil
	}))
	must.Equal(t, fmt.Sprint(ids, limits), "01[50 25 25]")
}

func TestSubmissionIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		fail http.HandlerFunc
		sent int
	}{
		"500":                    {answer(500, ``), 1},
		"lost":                   {hangUp, 1},
		"429":                    {answer(429, ``), 13},
		"503 with Retry-After":   {answer(503, ``, "Retry-After", "1"), 1},
		"accepted, without body": {answer(200, ``), 1},
		"accepted, without id":   {answer(200, `{"status":"IN_QUEUE"}`), 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, d := deployPiped(t, api.V2, c.fail)
			_, err := client.Jobs.Run(t.Context(), "e", api.Submission{Input: json.RawMessage(`{}`)})
			must.Hold(t, err != nil && len(d.requests()) == c.sent, name, "returned", err, "after", len(d.requests()), "requests; expected an error after", c.sent)
		})
	}
}

// A stream may take longer than other requests (10 s), by its wait for chunks. It is an array or, for SDKs, an object.
func TestStreamTimeout(t *testing.T) {
	for _, c := range []struct {
		status   string
		takes    time.Duration
		chunks   string
		succeeds bool
	}{
		{"IN_QUEUE", 10 * time.Second, `[{"output":1}]`, true},
		{"IN_QUEUE", 12 * time.Second, `[{"output":1}]`, false},
		{"IN_PROGRESS", 19 * time.Second, `{"status":"IN_PROGRESS","stream":[{"output":1}]}`, true},
		{"IN_PROGRESS", 21 * time.Second, `[{"output":1}]`, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, _ := deployPiped(t, api.V2, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/status/") {
					answer(200, `{"id":"j","status":"`+c.status+`"}`)(w, r)
					return
				}
				select {
				case <-time.After(c.takes):
				case <-r.Context().Done():
				}
				answer(200, c.chunks)(w, r)
			})
			_, err := client.Jobs.Stream(t.Context(), "e", "j", func(api.Job) {}, func(api.Chunk) error { return io.EOF })
			must.Equal(t, errors.Is(err, io.EOF), c.succeeds, "success of a stream of a job", c.status, "that takes", c.takes, "error", err)
		})
	}
}

func TestRunToEnd(t *testing.T) {
	queued, running := answer(200, `{"id":"j","status":"IN_QUEUE"}`), answer(200, `{"id":"j","status":"IN_PROGRESS"}`)
	cancelled, broken := answer(200, `{"id":"j","status":"CANCELLED"}`), answer(500, ``)
	health := `{}`
	untilCancelled := func(a http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.Contains(r.URL.Path, "/cancel/"):
				a = cancelled
			case strings.HasSuffix(r.URL.Path, "/health"):
				_, _ = io.WriteString(w, health)
				return
			}
			a(w, r)
		}
	}
	for name, c := range map[string]struct {
		answers   []http.HandlerFunc // the last one for all further requests
		health    string             // of the endpoint
		interrupt time.Duration
		want      string // the error, "" for none
		last      string // request
		takes     time.Duration
		progress  string
	}{
		"completed": {answers: []http.HandlerFunc{queued, queued, running, answer(200, `{"id":"j","status":"COMPLETED","output":7}`)},
			last: "GET /v2/e/status/j", takes: 1187500 * time.Microsecond, progress: "IN_QUEUE IN_QUEUE IN_PROGRESS"},
		"failed": {answers: []http.HandlerFunc{queued, answer(200, `{"id":"j","status":"FAILED","error":"boom"}`)},
			want: "job j of endpoint e ended as FAILED: boom", last: "GET /v2/e/status/j", takes: 250 * time.Millisecond, progress: "IN_QUEUE"},
		"cancelled elsewhere": {answers: []http.HandlerFunc{cancelled},
			want: "job j of endpoint e ended as CANCELLED", last: "POST /v2/e/run"},
		"too slow": {answers: []http.HandlerFunc{queued, untilCancelled(running)},
			want: "the wait for job j of endpoint e ended while it was IN_PROGRESS: not finished after 1m0s; it was cancelled", last: "POST /v2/e/cancel/j", takes: time.Minute},
		"interrupted": {answers: []http.HandlerFunc{untilCancelled(queued)}, interrupt: 3 * time.Second,
			want: "the wait for job j of endpoint e ended while it was IN_QUEUE: interrupted; it was cancelled; the endpoint has no worker", last: "POST /v2/e/cancel/j", takes: 3 * time.Second},
		"no ready worker": {answers: []http.HandlerFunc{untilCancelled(queued)}, health: `{"workers":{"initializing":1,"throttled":2}}`,
			want: "it was cancelled; no worker is ready: 1 initializing, 2 throttled, 0 unhealthy", last: "POST /v2/e/cancel/j", takes: time.Minute},
		"broken image": {answers: []http.HandlerFunc{untilCancelled(queued)}, health: `{"workers":{"unhealthy":1},"reason":"no such image"}`,
			want: "it was cancelled; no worker is ready: no such image", last: "POST /v2/e/cancel/j", takes: time.Minute},
		"busy workers": {answers: []http.HandlerFunc{untilCancelled(queued)}, health: `{"workers":{"running":2,"throttled":1}}`,
			want: "it was cancelled; 2 of the endpoint's 3 workers are busy, and no other is ready", last: "POST /v2/e/cancel/j", takes: time.Minute},
		"refused cancel": {answers: []http.HandlerFunc{queued, running, answer(403, `{"title":"no"}`)},
			want: "it could not be cancelled, and may continue", last: "POST /v2/e/cancel/j", takes: 625 * time.Millisecond},
		"outage of 5 s": {answers: []http.HandlerFunc{queued, running, broken, broken, broken, broken, answer(200, `{"id":"j","status":"COMPLETED"}`)}, last: "GET /v2/e/status/j"},
		"outage": {answers: []http.HandlerFunc{queued, running, broken},
			want: "IN_PROGRESS: not finished after 1m0s, and its status could not be read: GET http://deployment/v2/e/status/j: 500", last: "POST /v2/e/cancel/j"},
		"gone": {answers: []http.HandlerFunc{queued, answer(404, `{"error":"no such job"}`)},
			want: "it no longer exists", last: "GET /v2/e/status/j", takes: 250 * time.Millisecond},
		"not submitted": {answers: []http.HandlerFunc{answer(404, `{"error":"no such endpoint"}`)},
			want: "the job could not be submitted to endpoint e", last: "POST /v2/e/run"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			health = cmp.Or(c.health, "{}")
			client, d := deployPiped(t, api.V2, c.answers...)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.interrupt > 0 {
				time.AfterFunc(c.interrupt, stop)
			}
			started := time.Now()
			var seen []string
			_, err := client.Jobs.RunToEnd(ctx, "e", api.Submission{Input: json.RawMessage(`{}`)}, time.Minute, func(job api.Job) { seen = append(seen, job.Status) })
			must.Hold(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)), "expected the error", c.want, "and got", err)
			last := d.last(t)
			must.Hold(t, last.method+" "+last.path == c.last, "the last request is", last.method, last.path, "expected", c.last)
			if !strings.HasPrefix(name, "outage") { // retries have random pauses
				must.Equal(t, time.Since(started), c.takes, "took")
			}
			must.Hold(t, c.progress == "" || strings.Join(seen, " ") == c.progress, "the reported statuses are", seen, "expected", c.progress)
			failure, ok := errors.AsType[*api.JobError](err)
			must.Hold(t, !ok || failure.Job.ID == "j", "the error names no job", failure)
		})
	}
}

// The error of a stream that failed names the job's last known status.
func TestStreamThatFails(t *testing.T) {
	queued, running := answer(200, `{"id":"j","status":"IN_QUEUE"}`), answer(200, `{"id":"j","status":"IN_PROGRESS"}`)
	forbidden := answer(403, `{"title":"no"}`)
	for status, answers := range map[string][]http.HandlerFunc{
		"IN_QUEUE":    {queued, forbidden},
		"IN_PROGRESS": {queued, running, answer(200, `[]`), forbidden},
	} {
		runInBubble(t, status, func(t *testing.T) {
			client, _ := deployPiped(t, api.V2, answers...)
			_, err := client.Jobs.RunUntil(t.Context(), "e", api.Submission{Input: json.RawMessage(`{}`)}, time.Minute, func(ctx context.Context, job api.Job) (api.Job, error) {
				return client.Jobs.Stream(ctx, "e", job.ID, func(api.Job) {}, func(api.Chunk) error { return nil })
			})
			must.ErrorContains(t, err, "the wait for job j of endpoint e ended while it was "+status+": ")
		})
	}
}

// stream answers with events, pauses after each, and then stays open for an hour.
func stream(pause time.Duration, events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		_ = flush.Flush()
		for i, e := range events {
			fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, e)
			_ = flush.Flush()
			if !wait(r, pause) {
				return
			}
		}
		wait(r, time.Hour)
	}
}

// withLastEvent names the last event that exists when it answers.
func withLastEvent(last string, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Event-ID", last)
		answer(w, r)
	}
}

func wait(r *http.Request, d time.Duration) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-time.After(d):
		return true
	}
}

func event(n int) string {
	return fmt.Sprintf(`{"ts":"2026-06-01T00:00:0%dZ","source":"container","line":"line %d"}`, n, n)
}

// A log is read until it has the lines asked for, a silence of a second or the time is up. A silence before a line
// that Last-Event-ID names doesn't end it.
func TestLogIsBounded(t *testing.T) {
	three := []string{event(1), event(2), event(3)}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		query  api.LogQuery
		lines  int
		took   time.Duration
	}{
		"as many lines as asked for":      {stream(0, three...), api.LogQuery{Tail: 2, MaxTime: time.Minute}, 2, 0},
		"silence":                         {stream(0, three...), api.LogQuery{Tail: 100, MaxTime: time.Minute}, 3, time.Second},
		"silence from the beginning":      {stream(0), api.LogQuery{Tail: 100, MaxTime: time.Minute}, 0, time.Second},
		"pauses that aren't a silence":    {stream(900*time.Millisecond, three...), api.LogQuery{Tail: 100, MaxTime: time.Minute}, 3, 2800 * time.Millisecond},
		"pauses before lines that exist":  {withLastEvent("2", stream(5*time.Second, three...)), api.LogQuery{Tail: 100, MaxTime: time.Minute}, 3, 11 * time.Second},
		"the time, with lines that exist": {withLastEvent("2", stream(5*time.Second, three...)), api.LogQuery{Tail: 100, MaxTime: 8 * time.Second}, 2, 8 * time.Second},
		"the time":                        {stream(900*time.Millisecond, three...), api.LogQuery{Tail: 100, MaxTime: 1500 * time.Millisecond}, 2, 1500 * time.Millisecond},
	} {
		runInBubble(t, name, func(t *testing.T) {
			client, d := deployPiped(t, api.V2, c.answer)
			begin := time.Now()
			lines, err := client.PodLog(t.Context(), "p", c.query)
			must.Hold(t, err == nil && len(lines) == c.lines && time.Since(begin) == c.took,
				len(lines), "lines after", time.Since(begin), err, "expected", c.lines, "after", c.took)
			if len(lines) > 0 {
				expectEqual(t, lines[0], api.LogLine{Time: "2026-06-01T00:00:01Z", Source: "container", Text: "line 1", ID: "0"})
			}
			expectEqual(t, d.last(t).header.Get("Accept"), "text/event-stream")
		})
	}
}

func TestLogQuery(t *testing.T) {
	c, d := deploy(t, api.V2, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", event(1)) // and the log ends
	})
	for _, test := range []struct {
		query api.LogQuery
		want  string
	}{
		{api.LogQuery{Tail: 7, MaxTime: time.Second}, "tail=7"},
		{api.LogQuery{Tail: 7, MaxTime: time.Second, Source: "system"}, "source=system&tail=7"},
		{api.LogQuery{Tail: 7, MaxTime: time.Second, Since: "2026-06-01T00:00:00Z"}, "since=2026-06-01T00%3A00%3A00Z"}, // tail would be ignored
	} {
		must.Equal(t, len(must.Do(c.WorkerLog(t.Context(), "e", "w", test.query))(t)), 1, "lines")
		expectEqual(t, d.last(t).path, "/v2/serverless/e/workers/w/logs")
		expectEqual(t, d.last(t).query, test.want)
	}
	for _, id := range []string{"", "a/b"} {
		must.ErrorContains(t, must.Err(c.PodLog(t.Context(), id, api.LogQuery{})), "can't be the id")
	}
}

// An answer without a log is an error.
func TestLogThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"JSON":          {answer(200, `{"lines":[]}`, "Content-Type", "application/json"), "text/event-stream"},
		"an HTML page":  {answer(200, `<html></html>`, "Content-Type", "text/html"), "HTML"},
		"404":           {answer(404, `{"title":"Not Found","status":404,"detail":"no such pod"}`, "X-Request-Id", "req-3"), "404 Not Found: no such pod (request id req-3)"},
		"a long line":   {answer(200, "data: "+strings.Repeat("x", 1<<20)+"\n\n", "Content-Type", "text/event-stream"), "/v2/pods/p/logs?tail=5: an event of the log is larger than 1 MiB"},
		"no JSON in it": {answer(200, "data: line\n\n", "Content-Type", "text/event-stream"), "/v2/pods/p/logs?tail=5: an event of the log is not JSON"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			client, _ := deployPiped(t, api.V2, c.answer)
			must.ErrorContains(t, must.Err(client.PodLog(t.Context(), "p", api.LogQuery{Tail: 5, MaxTime: time.Second})), c.says, "/v2/pods/p/logs")
		})
	}
}
