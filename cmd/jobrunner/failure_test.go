//go:build unix

package main_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// serveBroken serves an endpoint with at least one worker. text is its handler's source.
func serveBroken(t *testing.T, text string, args ...string) *handlers {
	t.Helper()
	h := newHandlers(t, args...)
	put(t, filepath.Join(h.dir, "handler.py"), text)
	h.createEndpoint("/v2/serverless", `{"name": "broken", "image": "team/handler", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}}`)
	return h
}

// awaitHealthReason waits until the reason why an endpoint's workers can't start contains a part. The
// end of a worker's log joins the reason shortly after the worker exits.
func (h *handlers) awaitHealthReason(part string) (reason string) {
	h.t.Helper()
	h.until("a reason with "+part, func() bool {
		var health struct{ Reason string }
		h.call(http.MethodGet, "/v2/"+h.endpoint+"/health", "", &health)
		reason = health.Reason
		return strings.Contains(reason, part)
	})
	return reason
}

// While no worker can start, health and a header of a waiting job's status have the reason. Bodies
// follow the contract.
func TestHealthSaysWhyJobsWait(t *testing.T) {
	t.Parallel()
	h := serveBroken(t, "import no_such_model\n")
	const want = "it ended right after its start, with exit status 1: ModuleNotFoundError: No module named 'no_such_model'"
	must.Equal(t, h.awaitHealthReason("ModuleNotFoundError"), want, "the reason")
	id := h.run("x", "")
	for path, method := range map[string]string{"/run": http.MethodPost, "/runsync?wait=1000": http.MethodPost, "/status/" + id: http.MethodGet} {
		if resp, _ := h.request(method, "/v2/"+h.endpoint+path, `{"input": {}}`); resp.Header.Get("X-Queue-Reason") != want {
			t.Errorf("%s: the headers are %v", path, resp.Header)
		}
	}
	var body string
	h.call(http.MethodGet, "/v2/"+h.endpoint+"/status/"+id, "", &body)
	must.Equal(t, body, `{"id":"`+id+`","status":"IN_QUEUE"}`, "the job")
	put(t, filepath.Join(h.dir, "handler.py"), trace)
	h.awaitResult(id)
	var health map[string]any
	h.call(http.MethodGet, "/v2/"+h.endpoint+"/health", "", &health)
	if _, ok := health["reason"]; ok {
		t.Errorf("a worker runs, but health has a reason: %v", health)
	}
	if resp, _ := h.request(http.MethodGet, "/v2/"+h.endpoint+"/status/"+id, ""); resp.Header.Get("X-Queue-Reason") != "" {
		t.Errorf("a completed job has the headers %v", resp.Header)
	}
}

// A repeated failure is logged once, even if its text has a changing address, time or id. Another
// exit status is another failure.
func TestSameFailureIsSaidOnce(t *testing.T) {
	acctest.LeaveToCI(t, "package worker tests the reasons")
	t.Parallel()
	h := serveBroken(t, `import os, sys, time, uuid
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "starts"), "a") as f:
    f.write("x\n")
print(f"{time.time()} the handler <object at {hex(id(object()) + time.time_ns())}> failed, see {uuid.uuid4()}", flush=True)
sys.exit(5 if os.path.exists(os.path.join(here, "other.go")) else 4)
`)
	h.until("three starts", func() bool { return len(h.lines("starts")) >= 3 })
	h.release("other")
	h.awaitHealthReason("exit status 5")
	h.interrupt()
	log := h.stderr.String()
	must.Equal(t, strings.Count(log, "with exit status 4"), 1, "the log has the failure", "times", log)
	must.Equal(t, strings.Count(log, "with exit status 5"), 1, "the log has the other failure", "times", log)
}

// The log of serve has requests and results, but no polls of workers.
func TestPollsAreNotLogged(t *testing.T) {
	t.Parallel()
	h := serveHandlers(t, `"cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}`)
	id := h.run("x", "")
	h.awaitResult(id)
	h.interrupt()
	log := h.stderr.String()
	for _, quiet := range []string{"/ping/", "/job-take/", "/job-stop/"} {
		must.Hold(t, !strings.Contains(log, quiet), "the log has", quiet, log)
	}
	must.Contain(t, log, "/job-done/", "/run")
}
