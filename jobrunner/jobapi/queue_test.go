package jobapi_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// A retry notifies the pools. A rejected retry changes nothing, and its error names the job's status.
func TestRetry(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		id := d.submit(`{"input": {}}`)
		queued := d.status(id)
		a := d.do("POST", "/v2/ep/retry/"+id, "")
		must.Hold(t, a.status == 400 && strings.Contains(a.raw, "IN_QUEUE") && d.status(id).raw == queued.raw, "retry of a queued job answered", a.status, a.raw)
		d.report(d.take("ep"), engine.Fail(`no "such" model`, []byte(`{"partial": true}`)))
		got := d.status(id)
		must.Hold(t, got.body["status"] == "FAILED" && got.body["error"] == `no "such" model` && strings.Contains(got.raw, `"output":{"partial": true}`), "the failed job is", got.raw)
		before := d.queuedCalls.Load()
		d.expectAnswer(fmt.Sprintf(`200 {"id":%q,"status":"IN_QUEUE"}`, id), "POST", "/v2/ep/retry/"+id, "")
		must.Equal(t, d.queuedCalls.Load(), before+1, "notifications of the pools")
	})
}

// A client that waits for a purged job is answered at once.
func TestPurgeEndsWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		after(2, func() { d.do("POST", "/v2/ep/purge-queue", "") })
		start := now()
		a := d.do("POST", "/v2/ep/runsync", `{"input": {}}`)
		must.Hold(t, a.status == 404 && since(start) == 2, "after", since(start), "s:", a.status, a.raw)
		synctest.Wait() // for the answer to the purge
	})
}

func TestRequests(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		list := func() []any {
			t.Helper()
			a := d.do("GET", "/v2/ep/requests", "")
			all, ok := a.body["requests"].([]any)
			must.Require(t, a.status == 200 && ok && len(a.body) == 1, "answered", a.status, a.raw)
			sleep(10) // for the rate limit
			return all
		}
		must.Equal(t, list(), nil, "the list without requests")
		largeID := d.submit(`{"input": {}}`)
		d.report(d.take("ep"), engine.Done([]byte(`"`+strings.Repeat("x", 65535)+`"`)))
		var ids []string
		for range 99 {
			ids = append(ids, d.submit(`{"input": {}, "s3Config": {"accessSecret": "planted"}}`))
			sleep(0.001)
		}
		job := d.take("ep")
		d.report(job, engine.Done([]byte(`{"a":  1}`)))
		d.take("ep")
		got := list()
		must.Require(t, len(got) == 100, len(got), "requests are listed, want 100")
		for i, request := range got[:99] {
			must.Equal[any](t, request.(map[string]any)["id"], ids[98-i], "the id of request", i)
		}
		last := got[99].(map[string]any)
		must.Hold(t, last["id"] == largeID && last["status"] == "COMPLETED" && last["output"] == nil, "the job with the large output:", last)
		a := d.do("GET", "/v2/ep/requests", "")
		status := d.status(ids[0]).raw
		must.Hold(t, strings.Contains(a.raw, status) && !strings.Contains(a.raw, "planted"), "the list lacks the status object", status)
		d.submit(`{"input": {}}`)
		got = list()
		must.Hold(t, len(got) == 100 && got[99].(map[string]any)["id"] != largeID, "the oldest job is still listed")
		sleep(600) // the running job times out
		last = list()[98].(map[string]any)
		must.Hold(t, last["status"] == "TIMED_OUT" && last["executionTime"] == 600000.0, "the job whose time is over:", last)
		must.Equal(t, d.do("GET", "/v2/ep2/requests", "").raw, `{"requests":[]}`, "the list of another endpoint")
	})
}
