package workerapi_test

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

func takenJob(id, input, members string) engine.Taken {
	return engine.Taken{Ref: engine.Ref{Endpoint: "ep", ID: id, Worker: "w1"}, Input: []byte(input), Rest: []byte(members)}
}

// The worker gets the job's bytes as submitted, with the members for the handler and always an input.
func TestTake(t *testing.T) {
	large := `"` + strings.Repeat("x", 1<<20) + `"`
	for _, c := range []struct {
		job  engine.Taken
		want string
	}{
		{takenJob("j1", `{"a":  1}`, ""), `{"id":"j1","input":{"a":  1}}`},
		{takenJob("j1", `{}`, "{}"), `{"id":"j1","input":{}}`},
		{takenJob("j1", "", ""), `{"id":"j1","input":{}}`},
		{takenJob("j1", `{}`, `{"policy":{"ttl":10000},"webhook":"http://x"}`), `{"id":"j1","input":{},"policy":{"ttl":10000},"webhook":"http://x"}`},
		{takenJob("j1", large, ""), `{"id":"j1","input":` + large + `}`},
	} {
		runProtocol(t, func(p *protocol) {
			go func() { p.jobs <- []engine.Taken{c.job} }()
			got := p.mustSend("GET", "/v2/ep/job-take/w1?gpu=NVIDIA+H200&job_in_progress=0", "")
			p.expectAnswer(got, 200, c.want)
			must.Equal(t, got.header.Get("Content-Length"), strconv.Itoa(len(c.want)), "the length, without which clients in pure Python can't find the end of an answer")
			p.expectCalls("idle w1", "take w1 1")
		})
	}
}

func TestTakeBatch(t *testing.T) {
	for query, limit := range map[string]string{
		"?gpu=x&batch_size=3&job_in_progress=1": "3", "?gpu=x": "1", "?batch_size=0": "1", "?batch_size=-4": "1",
		"?batch_size=many": "1", "?batch_size=1000000": "100", "&batch_size=5": "5",
	} {
		runProtocol(t, func(p *protocol) {
			go func() { p.jobs <- []engine.Taken{takenJob("j1", `{"n":1}`, ""), takenJob("j2", `{}`, "")} }()
			p.expectAnswer(p.mustSend("GET", "/v2/ep/job-take-batch/w1"+query, ""), 200, `[{"id":"j1","input":{"n":1}},{"id":"j2","input":{}}]`)
			p.expectCalls("take w1 " + limit)
		})
	}
}

// Polls without a result end with 204 before any worker's time-out, or at once if the worker drains.
func TestPollsAreHeld(t *testing.T) {
	for _, path := range []string{"/v2/ep/job-take/w1?gpu=x", "/v2/ep/job-take-batch/w1?gpu=x&batch_size=2", "/v2/ep/job-stop/w1?gpu=x"} {
		runProtocol(t, func(p *protocol) {
			start := time.Now()
			p.expectAnswer(p.mustSend("GET", path, ""), 204, "")
			duration := time.Since(start)
			must.Hold(t, duration >= 30*time.Second && duration <= 60*time.Second, path, "was held for", duration)
			go func() { time.Sleep(7 * time.Second); close(p.drain) }()
			start = time.Now()
			p.expectAnswer(p.mustSend("GET", path, ""), 204, "")
			must.Equal(t, time.Since(start), 7*time.Second, "the duration of the poll", path, "of a worker that drains after 7 s")
		})
	}
}

// A job taken at the end of a poll reaches the worker, or the queue if the worker has disconnected.
func TestTakeAtTheEndOfAPoll(t *testing.T) {
	runProtocol(t, func(p *protocol) {
		p.lateJobs = []engine.Taken{takenJob("j1", `{}`, "")}
		p.expectAnswer(p.mustSend("GET", "/v2/ep/job-take/w1?gpu=x", ""), 200, `{"id":"j1","input":{}}`)
		p.expectCalls("take w1 1")
		ctx, cancel := context.WithCancel(p.t.Context())
		go func() { _, _ = p.send(ctx, "GET", "/v2/ep/job-take/w1?gpu=x", http.NoBody) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		p.expectCalls("take w1 1", "report w1 j1 replace=false")
		must.Hold(t, len(p.reports) == 1 && reflect.DeepEqual(p.reports[0], engine.Returned()), "a job that no worker received must not count a retry, and was reported as", p.reports)
	})
}

// Each body of job-done becomes a report (worker protocol, bodies of job-done).
func TestDone(t *testing.T) {
	for body, want := range map[string]struct {
		report  engine.Report
		replace bool
		refused bool
	}{
		`{"output": {"a":  1}}`:                  {report: engine.Done([]byte(`{"a":  1}`))},
		`{"output": null}`:                       {report: engine.Done([]byte(`null`))},
		`{"output": false}`:                      {report: engine.Done([]byte(`false`))},
		`{"output": []}`:                         {report: engine.Done([]byte(`[]`))},
		`{}`:                                     {report: engine.Done(nil)},
		`{"error": null, "output": 1}`:           {report: engine.Done([]byte(`1`))},
		`{"output": "x", "stopPod": true}`:       {report: engine.Done([]byte(`"x"`)), replace: true},
		`{"output": "x", "stopPod": false}`:      {report: engine.Done([]byte(`"x"`))},
		`{"stopPod": true}`:                      {report: engine.Done(nil), replace: true},
		`{"error": "no", "output": {"code": 7}}`: {report: engine.Fail("no", []byte(`{"code": 7}`))},
		`{"error": "no"}`:                        {report: engine.Fail("no", nil)},
		`{"error": "no", "output": null}`:        {report: engine.Fail("no", nil)},
		`{"error": {"code":  7}}`:                {report: engine.Fail(`{"code":  7}`, nil)},
		`{"error": ["a", 1]}`:                    {report: engine.Fail(`["a", 1]`, nil)},
		`{"error": 12.50}`:                       {report: engine.Fail(`12.50`, nil)},
		`{"error": true, "stopPod": true}`:       {report: engine.Fail(`true`, nil), replace: true},
		`{"error": ""}`:                          {report: engine.Fail("the handler failed without an error message", nil)},
		`{"error": "{\"error_type\": \"<class 'ValueError'>\"}"}`: {report: engine.Fail(`{"error_type": "<class 'ValueError'>"}`, nil)},
		`{"status": "IN_PROGRESS", "output": "40 %"}`:             {report: engine.Progress([]byte(`"40 %"`))},
		`{"status": "IN_PROGRESS"}`:                               {report: engine.Progress(nil)},
		`{"status": "IN_PROGRESS", "output": {"error": 1}}`:       {report: engine.Progress([]byte(`{"error": 1}`))},
		"{\"output\": \"\xff\"}":                                  {report: engine.Done([]byte("\"\uFFFD\""))},
		`{"output": NaN}`:                                         {report: engine.Fail("the worker's result was rejected: the body is not a JSON object, at byte 12: JSON has no NaN", nil), refused: true},
		`{"output": -Infinity}`:                                   {report: engine.Fail("the worker's result was rejected: the body is not a JSON object, at byte 13: JSON has no Infinity", nil), refused: true},
		`["a"]`:                                                   {report: engine.Fail("the worker's result was rejected: the body is not a JSON object", nil), refused: true},
		`null`:                                                    {report: engine.Fail("the worker's result was rejected: the body is not a JSON object", nil), refused: true},
		``:                                                        {report: engine.Fail("the worker's result was rejected: the body is not a JSON object, at byte 0: unexpected end of JSON input", nil), refused: true},
		`{"output": "` + strings.Repeat("x", 20<<20) + `"}`:                       {report: engine.Fail("the worker's result was rejected: the body is larger than 20971520 bytes: return a reference to the data instead, such as a URL", nil), refused: true},
		`{"output": "` + strings.Repeat("x", 20<<20-len(`{"output": ""}`)) + `"}`: {report: engine.Done([]byte(`"` + strings.Repeat("x", 20<<20-len(`{"output": ""}`)) + `"`))},
	} {
		runProtocol(t, func(p *protocol) {
			a := p.mustSend("POST", "/v2/ep/job-done/w1/j1?gpu=x&isStream=false", body, "X-Request-ID", "another")
			if (a.status == 400) != want.refused || (a.status == 200) == want.refused {
				t.Errorf("%.80s: answered %d %s", body, a.status, a.text)
			}
			p.expectCalls(map[bool]string{true: "report w1 j1 replace=true", false: "report w1 j1 replace=false"}[want.replace])
			if len(p.reports) != 1 || !reflect.DeepEqual(p.reports[0], want.report) {
				t.Errorf("%.80s means %.200v, not %.200v", body, p.reports, want.report)
			}
		})
	}
}

// An unusable progress update is rejected, and its job continues.
func TestUnusableProgress(t *testing.T) {
	for body, reason := range map[string]string{
		`{"status": "IN_PROGRESS", "output": NaN}`:                                   "the body is not a JSON object, at byte 37: JSON has no NaN",
		`{"status": "IN_PROGRESS", "output": "` + strings.Repeat("x", 21<<20) + `"}`: "the body is larger than 20971520 bytes: return a reference to the data instead, such as a URL",
	} {
		runProtocol(t, func(p *protocol) {
			if a := p.mustSend("POST", "/v2/ep/job-done/w1/j1?gpu=x", body); a.status != 400 {
				t.Errorf("%.60s: answered %d %s", body, a.status, a.text)
			}
			p.expectCalls("note w1 a progress update of job j1 was rejected and is lost: " + reason)
		})
	}
}

func TestStream(t *testing.T) {
	for body, want := range map[string]engine.Report{
		`{"output": {"a":  1}}`:                            engine.Chunk([]byte(`{"a":  1}`), nil),
		`{"output": "text"}`:                               engine.Chunk([]byte(`"text"`), nil),
		`{"output": null}`:                                 engine.Chunk([]byte(`null`), nil),
		`{"output": 1, "metrics": {"pending": 2}}`:         engine.Chunk([]byte(`1`), []byte(`{"pending": 2}`)),
		`{"output": 1, "metrics": "none"}`:                 engine.Chunk([]byte(`1`), nil),
		`{"output": "` + strings.Repeat("x", 3<<20) + `"}`: engine.Chunk([]byte(`"`+strings.Repeat("x", 3<<20)+`"`), nil),
	} {
		runProtocol(t, func(p *protocol) {
			p.expectAnswer(p.mustSend("POST", "/v2/ep/job-stream/w1/j1?gpu=x&isStream=false", body), 200, "{}")
			p.expectCalls("report w1 j1 replace=false")
			if len(p.reports) != 1 || !reflect.DeepEqual(p.reports[0], want) {
				t.Errorf("%.80s means %.200v, not %.200v", body, p.reports, want)
			}
		})
	}
	for body, reason := range map[string]string{
		``:                "the body is not a JSON object, at byte 0: unexpected end of JSON input",
		`[1]`:             "the body is not a JSON object",
		`{"chunk": 1}`:    `the chunk has no output: post {"output": …}`,
		`{"output": NaN}`: "the body is not a JSON object, at byte 12: JSON has no NaN",
		`{"output": "` + strings.Repeat("x", 21<<20) + `"}`: "the body is larger than 20971520 bytes: return a reference to the data instead, such as a URL",
	} {
		runProtocol(t, func(p *protocol) {
			if a := p.mustSend("POST", "/v2/ep/job-stream/w1/j1?gpu=x", body); a.status != 400 {
				t.Errorf("%.80s: answered %d %s", body, a.status, a.text)
			}
			p.expectCalls("note w1 a chunk of job j1 was rejected and is lost: " + reason)
		})
	}
}

func TestPing(t *testing.T) {
	for query, want := range map[string]string{
		"?gpu=x": `ping w1 []`,
		"?gpu=x&job_id=a,b&runpod_version=1.7.13":   `ping w1 ["a" "b"]`,
		"?gpu=x&job_id=a&job_id=b":                  `ping w1 ["a" "b"]`,
		"?gpu=x&job_id=":                            `ping w1 []`,
		"&job_id=a%2Cb":                             `ping w1 ["a" "b"]`,
		"?gpu=x&status=unhealthy&check=disk":        `unhealthy w1 the worker reports itself unhealthy: its check disk failed`,
		"?status=unhealthy&check=gpu&reason=no+GPU": `unhealthy w1 the worker reports itself unhealthy: its check gpu failed: no GPU`,
		"?status=unhealthy":                         `unhealthy w1 the worker reports itself unhealthy`,
	} {
		runProtocol(t, func(p *protocol) {
			p.expectAnswer(p.mustSend("GET", "/v2/ep/ping/w1"+query, ""), 200, "{}")
			p.expectCalls(want)
		})
	}
}

// Both forms of the key authorize the worker's own routes, and no other key does.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		path, key string
		status    int
	}{
		{"/v2/ep/ping/w1", workerKey, 200},
		{"/v2/ep/ping/w1", "Bearer " + workerKey, 200},
		{"/v2/ep/ping/w1", "bearer  " + workerKey, 200},
		{"/v2/ep/ping/w1", "", 401},
		{"/v2/ep/ping/w1", "Bearer", 401},
		{"/v2/ep/ping/w1", "another", 401},
		{"/v2/ep/ping/w2", workerKey, 404},
		{"/v2/other/ping/w1", workerKey, 404},
		{"/v2/ep/job-take/w1", "another", 401},
		{"/v2/ep/job-take/w2", workerKey, 404},
		{"/v2/ep/job-take-batch/w2", workerKey, 404},
		{"/v2/ep/job-stop/w1", "another", 401},
	} {
		runProtocol(t, func(p *protocol) {
			start := time.Now()
			a := p.mustSend("GET", c.path, "", "Authorization", c.key)
			must.Equal(t, a.status, c.status, c.path, c.key, a.text)
			must.Hold(t, !strings.Contains(a.text, "another") && (a.status == 401) == (a.header.Get("WWW-Authenticate") == "Bearer"), c.path, "with the key", c.key, "is answered with", a.text, a.header)
			// A worker would repeat a rejected poll for jobs at once.
			duration := time.Since(start)
			must.Hold(t, (duration >= time.Second) == strings.Contains(c.path, "job-take"), c.path, c.key, "was answered after", duration)
			if a.status != 200 {
				p.expectCalls()
			}
		})
	}
	runProtocol(t, func(p *protocol) {
		for _, path := range []string{"/v2/ep/job-done/w1/j1", "/v2/ep/job-stream/w1/j1"} {
			a := p.mustSend("POST", path, `{"output": 1}`, "Authorization", "another")
			must.Hold(t, a.status == 401, path, "with another key is answered", a.status, a.text)
		}
		p.expectCalls()
	})
}

func TestPathsAndMethods(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"POST", "/v2/ep/job-take/w1", 405, "GET"},
		{"POST", "/v2/ep/job-take-batch/w1", 405, "GET"},
		{"POST", "/v2/ep/job-stop/w1", 405, "GET"},
		{"POST", "/v2/ep/ping/w1", 405, "GET"},
		{"GET", "/v2/ep/job-done/w1/j1", 405, "POST"},
		{"GET", "/v2/ep/job-stream/w1/j1", 405, "POST"},
		{"DELETE", "/v2/ep/job-done/w1/j1", 405, "POST"},
		{"GET", "/v2/ep/job-take", 404, ""},
		{"GET", "/v2/ep/job-take/", 404, ""},
		{"GET", "/v2/ep/job-take/w1/j1", 404, ""},
		{"POST", "/v2/ep/job-done/w1", 404, ""},
		{"POST", "/v2/ep/job-done/w1/j1/more", 404, ""},
		{"GET", "/v2/ep/job-steal/w1", 404, ""},
		{"GET", "/live/v2/ep/ping/w1", 404, ""},
	} {
		runProtocol(t, func(p *protocol) {
			a := p.mustSend(c.method, c.path, "")
			must.Hold(t, a.status == c.status && a.header.Get("Allow") == c.allow && strings.HasPrefix(a.text, `{"error":"`),
				c.method, c.path, a.status, "Allow", a.header.Get("Allow"), a.text)
			p.expectCalls()
		})
	}
}

// A job's id ends before the parameters that a worker appends with & to a path without a query.
func TestJobIDEndsBeforeParameters(t *testing.T) {
	runProtocol(t, func(p *protocol) {
		p.expectAnswer(p.mustSend("POST", "/v2/ep/job-done/w1/j1&isStream=false", `{"output": 1}`), 200, "{}")
		p.expectCalls("report w1 j1 replace=false")
	})
}

// A temporary failure is a 5xx, which a worker retries; the answer to a poll for jobs is delayed.
func TestErrors(t *testing.T) {
	for path, delay := range map[string]time.Duration{"/v2/ep/job-take/w1": time.Second, "/v2/ep/ping/w1": 0} {
		runProtocol(t, func(p *protocol) {
			p.err = errBroken
			start := time.Now()
			p.expectAnswer(p.mustSend("GET", path, ""), 500, `{"error":"the deployment failed to answer: its log says why"}`)
			must.Equal(t, time.Since(start), delay, "the duration of", path)
			must.Hold(t, strings.Contains(p.log.String(), errBroken.Error()), "the log is", p.log)
		})
	}
	for _, body := range []string{`{"output": 1}`, `{"output": NaN}`} {
		runProtocol(t, func(p *protocol) {
			p.err = errBroken
			a := p.mustSend("POST", "/v2/ep/job-done/w1/j1", body)
			must.Hold(t, a.status == 500, body, "is answered", a.status, a.text, "want 500")
		})
	}
}

func TestOwnedPaths(t *testing.T) {
	for path, want := range map[string]bool{
		"/v2/ep/job-take/w1": true, "/v2/ep/job-done/w1/j1": true, "/v2/ep/ping/w1&job_id=a": true, "/v2/ep/job-take-batch/w1": true,
		"/v2/ep/run": false, "/v2/ep/status/ping": false, "/v2/ep/ping": false, "/live/v2/ep/ping/w1": false, "/v1/ep/ping/w1": false, "/": false,
	} {
		must.Equal(t, workerapi.Owns(path), want, "Owns", path)
	}
}
