package jobapi_test

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

func TestRun(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		a := d.do("POST", "/v2/ep/run", `{"input": {"a": 1}}`)
		must.Require(t, a.status == 200 && len(a.body) == 2 && a.body["status"] == "IN_QUEUE", "answered", a.status, a.raw)
		id := a.body["id"].(string)
		must.Hold(t, regexp.MustCompile(`^[0-9a-f-]{36}-\w+$`).MatchString(id), "the id is", id)
		must.Equal(t, d.queuedCalls.Load(), 1, "notifications of the pools")
		sleep(1.5)
		job := d.take("ep")
		got := d.status(id)
		must.Hold(t, got.body["status"] == "IN_PROGRESS" && got.body["delayTime"] == 1500.0 && got.body["workerId"] == "w1" && got.body["executionTime"] == nil, "the running job is", got.raw)
		sleep(2.25)
		const output = `{"b":  1.50, "big": 12345678901234567890, "ü": null}`
		d.report(job, engine.Done([]byte(output)))
		got = d.status(id)
		must.Hold(t, got.body["status"] == "COMPLETED" && got.body["delayTime"] == 1500.0 && got.body["executionTime"] == 2250.0 &&
			got.body["id"] == id && got.body["retries"] == nil, "the completed job is", got.raw)
		must.Contain(t, got.raw, output)
	})
}

// The worker gets the input as the bytes that were sent, with the other members of the submission.
func TestInputIsPassedUnchanged(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		const input = `{"policy": "mine",  "n": 1e-7, "x": "\u00fc"}`
		d.submit(`{"webhook": "https://example.com/hook", "input": ` + input + `, "s3Config": {"accessId": "i"}, "policy": {"ttl": 20000}, "foreign": 1}`)
		job := d.take("ep")
		must.Equal(t, string(job.Input), input, "the worker's input")
		must.Equal(t, string(job.Rest), `{"policy":{"ttl":20000},"s3Config":{"accessId":"i"},"webhook":"https://example.com/hook"}`, "the worker's other members")
		d.report(job, engine.Done(nil))
		calls := d.engine.CallQueues(nil)
		must.Hold(t, len(calls) == 1 && calls[0].Owner == "default", "the webhook calls are", calls, "expected a call of the key's owner")
	})
}

// A result of /run is kept for half an hour. A result of /runsync is kept for a minute, or for the requested wait if that is longer.
func TestRetention(t *testing.T) {
	for path, seconds := range map[string]float64{"run": 1800, "runsync": 60, "runsync?wait=1000": 60, "runsync?wait=200000": 200, "runsync?wait=300000": 300} {
		bubble(t, func(t *testing.T, d *deployment) {
			after(0.5, func() { d.report(d.take("ep"), engine.Done([]byte(`{}`))) })
			id := d.do("POST", "/v2/ep/"+path, `{"input": {}}`).body["id"].(string)
			if strings.HasPrefix(id, "sync-") {
				sleep(seconds - 0.001)
			} else {
				sleep(seconds + 0.499)
			}
			got := d.status(id)
			must.Hold(t, got.status == 200, path, "the job is gone too early", got.raw)
			sleep(0.001)
			got = d.status(id)
			must.Hold(t, got.status == 404, path, "the job still exists after", seconds, "s", got.raw)
		})
	}
}

func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		expectCancel := func(id, status string) {
			t.Helper()
			a := d.do("POST", "/v2/ep/cancel/"+id, "")
			must.Hold(t, a.status == 200 && len(a.body) == 2 && a.body["id"] == id && a.body["status"] == status, "cancel answered", a.status, a.raw)
			got := d.status(id)
			must.Hold(t, got.body["status"] == status, "and then the status is", got.raw)
		}
		waitingID := d.submit(`{"input": {}}`)
		expectCancel(waitingID, "CANCELLED")
		expectCancel(waitingID, "CANCELLED")
		runningID := d.submit(`{"input": {}}`)
		job := d.take("ep")
		expectCancel(runningID, "CANCELLED")
		got, _ := d.engine.Report(t.Context(), job.Ref, engine.Done([]byte(`1`)))
		must.Hold(t, got == engine.Stale, "a result after the cancel was answered", got)
		expectCancel(runningID, "CANCELLED")
		completedID := d.submit(`{"input": {}}`)
		d.report(d.take("ep"), engine.Done([]byte(`1`)))
		expectCancel(completedID, "COMPLETED")
	})
}

// /run and /runsync reject invalid bodies with 400, without a job, and accept values at the limits.
func TestSubmissions(t *testing.T) {
	type submission struct {
		body     string
		status   int
		wantText string
	}
	cases := []submission{
		{``, 400, "empty"}, {`   `, 400, "empty"}, {`{`, 400, "not JSON"}, {`{"input": {}`, 400, "not JSON"}, {`{"input": {}} x`, 400, "not JSON"}, {"{\"input\": {\"a\": \"\xff\"}}", 400, "send it uncompressed, in UTF-8"},
		{`[]`, 400, "object"}, {`[{"input": {}}]`, 400, "object"}, {`null`, 400, "object"}, {`"x"`, 400, "object"}, {`{}`, 400, "input is missing"},
		{`{"input": null}`, 400, "input must be"}, {`{"input": []}`, 400, "input must be"}, {`{"input": "x"}`, 400, "input must be"}, {`{"input": 1}`, 400, "input must be"},
		{`{"input": {}, "webhook": 1}`, 400, "webhook"}, {`{"input": {}, "webhook": "ftp://x"}`, 400, "webhook"}, {`{"input": {}, "webhook": "x"}`, 400, "webhook"}, {`{"input": {}, "webhook": "http://"}`, 400, "webhook"},
		{`{"input": {}, "webhook": "http://h:99999/"}`, 400, "webhook has the port 99999"}, {`{"input": {}, "webhook": "https://h:0"}`, 400, "port 0"}, {`{"input": {}, "webhook": "http://:80/"}`, 400, "webhook"}, {`{"input": {}, "webhook": "http://h/` + strings.Repeat("x", 8<<10) + `"}`, 400, "webhook is longer than 8192 bytes"}, {`{"input": {}, "webhook": "http://h:65535/"}`, 200, ""},
		{`{"input": {}, "policy": "x"}`, 400, "policy"}, {`{"input": {}, "policy": []}`, 400, "policy"},
		{`{"input": {}, "policy": {"lowPriority": "yes"}}`, 400, "policy.lowPriority"}, {`{"input": {}, "policy": {"ttl": 9999}}`, 400, "policy.ttl"}, {`{"input": {}, "policy": {"executionTimeout": 4999}}`, 400, "policy.executionTimeout"},
		{`{"input": {}, "s3Config": "x"}`, 400, "s3Config"}, {`{"input": {}, "s3Config": {"accessSecret": 1}}`, 400, "s3Config.accessSecret"},
		{`{"input": {}}`, 200, ""}, {`{"input": {"a": {}}, "webhook": null, "policy": null, "s3Config": null}`, 200, ""},
		{`{"input": {}, "webhook": "http://127.0.0.1:1/x"}`, 200, ""}, {`{"input": {}, "policy": {"lowPriority": true}}`, 200, ""},
		{`{"input": {}, "s3Config": {"accessId": "a", "accessSecret": "b", "bucketName": "c", "endpointUrl": "d"}}`, 200, ""},
	}
	bubble(t, func(t *testing.T, d *deployment) {
		for _, c := range cases {
			for _, path := range []string{"/v2/ep/run", "/v2/ep/runsync?wait=1000"} {
				jobsBefore := d.engine.Counts("ep").InQueue
				a := d.do("POST", path, c.body)
				newJobs := d.engine.Counts("ep").InQueue - jobsBefore
				must.Hold(t, a.status == c.status && (c.status == 200) == (newJobs == 1) && strings.Contains(a.raw, c.wantText), path, c.body, "got", a.status, a.raw, "and", newJobs, "jobs, want", c.status, c.wantText)
				must.Hold(t, c.status == 200 || a.body["error"] != nil, path, c.body, "the error lacks the cause", a.raw)
			}
		}
	})
}

// The largest body is accepted, and one byte more creates no job, with and without a Content-Length.
func TestBodyLimits(t *testing.T) {
	const envelope = `{"input": {"x": ""}}`
	body := func(size int) []byte {
		return []byte(`{"input": {"x": "` + strings.Repeat("a", size-len(envelope)) + `"}}`)
	}
	for path, limit := range map[string]int{"/v2/ep/run": 10 << 20, "/v2/ep/runsync?wait=1000": 20 << 20} {
		bubble(t, func(t *testing.T, d *deployment) {
			a := d.send("POST", path, bytes.NewReader(body(limit)))
			must.Equal(t, a.status, 200, path, "of", limit, "bytes", a.raw)
			for _, chunked := range []bool{false, true} {
				var reader io.Reader = bytes.NewReader(body(limit + 1))
				if chunked {
					reader = io.MultiReader(reader)
				}
				a := d.send("POST", path, reader)
				must.Hold(t, a.status == 413 && a.body["error"] != nil, path, "of one byte more, chunked", chunked, a.status, a.raw)
			}
			must.Equal(t, d.engine.Counts("ep").InQueue, 1, "jobs in the queue")
		})
	}
}

func TestKeys(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		id := d.submit(`{"input": {}}`)
		operations := []struct{ method, path, body string }{
			{"POST", "/v2/ep/run", `{"input": {}}`}, {"POST", "/v2/ep/runsync", `{"input": {}}`},
			{"GET", "/v2/ep/status/" + id, ""}, {"POST", "/v2/ep/cancel/" + id, ""}, {"GET", "/v2/ep/health", ""}, {"GET", "/v2/ep/no-such", ""},
		}
		for _, op := range operations {
			for _, value := range []string{"", "Bearer", "Bearer ", "Bearer the-keY", "Bearer the-key2", "Basic the-key", "Basic dGhlLWtleTo=", "the-ke"} {
				a := d.do(op.method, op.path, op.body, "Authorization", value)
				must.Hold(t, a.status == 401 && a.body["error"] != nil && !strings.Contains(a.raw, "the-ke"), op.method, op.path, value, a.status, a.raw)
			}
		}
		got := d.engine.Counts("ep")
		must.Hold(t, got.InQueue == 1, "the counts after requests without a key are", got)
		for _, value := range []string{"Bearer the-key", "bearer the-key", "BEARER  the-key", "the-key"} {
			must.Equal(t, d.do("GET", "/v2/ep/health", "", "Authorization", value).status, 200, value)
		}
	})
}

func TestRoutes(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		id := d.submit(`{"input": {}}`)
		for _, c := range []struct {
			method, path string
			status       int
			allow        string
		}{
			{"GET", "/v2/ep/run", 405, "POST"}, {"GET", "/v2/ep/runsync", 405, "POST"}, {"POST", "/v2/ep/status/" + id, 405, "GET"},
			{"GET", "/v2/ep/cancel/" + id, 405, "POST"}, {"POST", "/v2/ep/health", 405, "GET"}, {"DELETE", "/v2/ep/status/" + id, 405, "GET"},
			{"GET", "/v2/ep", 404, ""}, {"GET", "/v2/ep/", 404, ""}, {"POST", "/v2/ep/run/" + id, 404, ""}, {"GET", "/v2/ep/status", 404, ""},
			{"GET", "/v2/ep/status/" + id + "/x", 404, ""}, {"GET", "/v1/ep/health", 404, ""}, {"GET", "/v2/ep/unknown", 404, ""},
			{"GET", "/v2/nowhere/health", 404, ""}, {"POST", "/v2/nowhere/run", 404, ""}, {"POST", "/v2/nowhere/runsync", 404, ""},
			{"GET", "/v2/nowhere/status/" + id, 404, ""}, {"POST", "/v2/nowhere/cancel/" + id, 404, ""},
			{"GET", "/v2/ep/status/unknown", 404, ""}, {"POST", "/v2/ep/cancel/unknown", 404, ""}, {"POST", "/v2/ep/retry/unknown", 404, ""},
			{"GET", "/v2/ep2/status/" + id, 404, ""}, {"POST", "/v2/ep2/cancel/" + id, 404, ""}, {"POST", "/v2/ep2/retry/" + id, 404, ""}, // another endpoint's job
		} {
			a := d.do(c.method, c.path, "")
			must.Hold(t, a.status == c.status && a.header.Get("Allow") == c.allow && a.body["error"] != nil,
				c.method, c.path, "got", a.status, "Allow", a.header.Get("Allow"), a.raw, "want", c.status, "Allow", c.allow)
		}
		got := d.status(id)
		must.Hold(t, got.body["status"] == "IN_QUEUE", "the job is now", got.raw)
	})
}

func TestHealth(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		d.submit(`{"input": {}}`)
		d.submit(`{"input": {}}`)
		d.submit(`{"input": {}}`)
		d.report(d.take("ep"), engine.Done(nil))
		d.take("ep")
		const want = `{"jobs":{"completed":1,"failed":0,"inProgress":1,"inQueue":1,"retried":0},"workers":{"idle":1,"initializing":0,"running":0,"throttled":0,"unhealthy":0,"ready":1}}`
		a := d.do("GET", "/v2/ep/health", "")
		must.Hold(t, a.status == 200 && a.raw == want, "answered", a.status, a.raw)
	})
}

// If an endpoint is deleted while a job is submitted, no job is left.
func TestSubmitWhileEndpointIsDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		for _, path := range []string{"run", "runsync", "openai/v1/chat/completions"} {
			d.deletedLookups = 1 // only the router's lookup still finds it
			d.expectAnswer("404 …", "POST", "/v2/deleted/"+path, `{"input": {}}`)
			must.Equal(t, d.engine.Counts("deleted").InQueue, 0, "jobs in the queue after", path)
		}
	})
}
