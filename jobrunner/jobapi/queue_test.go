package jobapi_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

func TestRetry(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		expectRefusal := func(id, status string) {
			t.Helper()
			before := d.status(id)
			must.Require(t, before.body["status"] == status, "the job is", before.raw)
			a := d.do("POST", "/v2/ep/retry/"+id, "")
			must.Hold(t, a.status == 400 && strings.Contains(a.raw, status), "retry of a job that is", status, "answered", a.status, a.raw)
			must.Equal(t, d.status(id).raw, before.raw, "the job after a rejected retry")
		}
		id := d.submit(`{"input": {"n": 1}}`)
		expectRefusal(id, "IN_QUEUE")
		job := d.take("ep")
		expectRefusal(id, "IN_PROGRESS")
		d.report(job, engine.Fail("no luck", []byte(`"old"`)))
		sleep(1800 - 0.001) // just before the end of the retention
		before := d.queuedCalls.Load()
		a := d.do("POST", "/v2/ep/retry/"+id, "")
		want := fmt.Sprintf(`{"id":%q,"status":"IN_QUEUE"}`, id)
		must.Require(t, a.status == 200 && a.raw == want && d.queuedCalls.Load() == before+1, "retry answered", a.status, a.raw, "the pools were notified", d.queuedCalls.Load()-before, "times")
		must.Equal(t, d.status(id).raw, a.raw, "the status after the retry")
		sleep(2)
		job = d.take("ep")
		must.Equal(t, string(job.Input), `{"n": 1}`, "the input of the retried job")
		d.report(job, engine.Done([]byte(`"new"`)))
		got := d.status(id)
		must.Hold(t, got.body["status"] == "COMPLETED" && got.body["delayTime"] == 2000.0 && got.body["output"] == "new" && got.body["error"] == nil, "the retried job is", got.raw)
		expectRefusal(id, "COMPLETED")

		id = d.submit(`{"input": {}}`)
		d.do("POST", "/v2/ep/cancel/"+id, "")
		expectRefusal(id, "CANCELLED")

		id = d.submit(`{"input": {}, "policy": {"executionTimeout": 5000, "ttl": 60000}}`)
		d.take("ep")
		sleep(5)
		d.expectAnswer("200 …", "POST", "/v2/ep/retry/"+id, "") // it timed out
		sleep(55)
		d.expectAnswer("404 …", "POST", "/v2/ep/retry/"+id, "") // after the ttl
		id = d.submit(`{"input": {}}`)
		d.report(d.take("ep"), engine.Fail("x", nil))
		d.expectAnswer("404 …", "POST", "/v2/ep2/retry/"+id, "") // another endpoint
		sleep(1800)
		for _, id := range []string{id, "unknown"} {
			d.expectAnswer("404 …", "POST", "/v2/ep/retry/"+id, "")
		}
	})
}

func TestPurgeQueue(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		purge := func(want string) {
			t.Helper()
			a := d.do("POST", "/v2/ep/purge-queue", "")
			must.Hold(t, a.status == 200 && a.raw == want, "purge answered", a.status, a.raw, "want", want)
			sleep(10) // for the rate limit
		}
		purge(`{"removed":0,"status":"completed"}`)
		completedID := d.submit(`{"input": {}}`)
		d.report(d.take("ep"), engine.Done([]byte(`1`)))
		runningID := d.submit(`{"input": {}}`)
		job := d.take("ep")
		var waitingIDs []string
		for range 3 {
			waitingIDs = append(waitingIDs, d.submit(`{"input": {}}`))
		}
		a := d.do("GET", "/v2/ep/purge-queue", "")
		must.Hold(t, a.status == 405, "GET answered", a.status, a.raw)
		purge(`{"removed":3,"status":"completed"}`)
		for _, id := range waitingIDs {
			d.expectAnswer("404 …", "GET", "/v2/ep/status/"+id, "") // purged
		}
		d.report(job, engine.Done([]byte(`2`)))
		for id, output := range map[string]float64{completedID: 1, runningID: 2} {
			got := d.status(id)
			must.Hold(t, got.body["output"] == output, "a job that did not wait is", got.raw)
		}
		got := d.engine.Counts("ep")
		must.Hold(t, got.InQueue == 0 && got.Completed == 2, "counts are", got)
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
