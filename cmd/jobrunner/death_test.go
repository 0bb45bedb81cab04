//go:build unix

package main_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// page returns the page's data about workers.
type pageWorkers struct {
	Workers []struct{ ID, State, Reason string }
}

// logOf returns a worker's log by source.
func (h *handlers) logOf(worker, source string) string {
	h.t.Helper()
	var text string
	h.call(http.MethodGet, "/v2/serverless/"+h.endpoint+"/workers/"+worker+"/logs?source="+source, "", &text)
	return text
}

// If a worker dies during a job, its exit status is in its log, the jobrunner's log, the job's
// error and on the page.
func TestDeathLeavesATrace(t *testing.T) {
	acctest.LeaveToCI(t, "TestReasonHasTheCause covers the job's error")
	t.Parallel()
	for name, c := range map[string]struct{ death, exit string }{
		"exit":   {"os._exit(3)", "exit status 3"},
		"signal": {"os.kill(os.getpid(), 11)", "killed by SIGSEGV"},
		"kill":   {"os.kill(os.getpid(), 9)", "killed by SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHandlers(t)
			put(t, filepath.Join(h.dir, "handler.py"), "import os, runpod\ndef handler(job):\n    print('about to die', flush=True)\n    "+c.death+"\nrunpod.serverless.start({'handler': handler})\n")
			h.createEndpoint("/v2/serverless", `{"name": "dies", "image": "team/handler", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 0, "max": 1}}`)
			id := h.run("x", "")
			var job struct{ Status, Error, WorkerID string }
			h.until("the job's end", func() bool {
				h.call(http.MethodGet, "/v2/"+h.endpoint+"/status/"+id, "", &job)
				return job.Status == "FAILED"
			})
			if !strings.Contains(job.Error, "timed out after 1 retries: its worker died: "+c.exit) || !strings.HasSuffix(job.Error, "; the last line of its log: about to die") {
				t.Errorf("the job's error is %q", job.Error)
			}
			var shown pageWorkers
			h.until("the worker's end on the page", func() bool {
				h.call(http.MethodGet, "/ui/snapshot", "", &shown)
				n := 0
				for _, w := range shown.Workers {
					if w.State == "DIED" && strings.Contains(w.Reason, "its process ended with "+c.exit) && strings.Contains(w.Reason, "while it ran the job "+id) {
						n++
					}
				}
				return n == 2
			})
			dead := shown.Workers[len(shown.Workers)-1].ID
			text := h.logOf(dead, "system")
			must.Hold(t, strings.Contains(text, "the process ended with "+c.exit) && !strings.Contains(text, "about to die"), "the system lines of its log are", text)
			text = h.logOf(dead, "container")
			must.Hold(t, !strings.Contains(text, "the process ended") && strings.Contains(text, "about to die"), "its own lines are", text)
			h.interrupt()
			log := h.stderr.String()
			must.Hold(t, strings.Count(log, "a worker died") == 2 && strings.Contains(log, c.exit) && strings.Contains(log, id), "the log is", log)
		})
	}
}

// The reason of a worker that can't start contains the cause from the end of its log as text, even
// if the SDK logs a traceback as one line of JSON among debug lines.
func TestReasonHasTheCause(t *testing.T) {
	t.Parallel()
	h := newHandlers(t)
	put(t, filepath.Join(h.dir, "handler.py"), `import json, traceback
def log(level, message):
    print(json.dumps({"requestId": None, "message": message, "level": level}), flush=True)
try:
    def deep(n):
        return deep(n - 1) if n else {}["the cause"]
    deep(40)
except KeyError as err:
    lines = traceback.format_exception(type(err), err, err.__traceback__)
log("ERROR", f"Uncaught exception | {['x' * 3000] + lines}")
for n in range(30):
    log("DEBUG", "JobScaler.status | heartbeat")
raise SystemExit(1)
`)
	h.createEndpoint("/v2/serverless", `{"name": "broken", "image": "team/handler", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}}`)
	var list struct {
		Workers []struct{ Status, Reason string }
	}
	h.until("a reason", func() bool {
		h.call(http.MethodGet, "/v2/serverless/"+h.endpoint+"/workers", "", &list)
		// The log is added to the reason shortly after the state changes.
		return len(list.Workers) == 1 && list.Workers[0].Status == "UNHEALTHY" && strings.Contains(list.Workers[0].Reason, "its log")
	})
	reason := list.Workers[0].Reason
	if !strings.HasPrefix(reason, "it ended right after its start, with exit status 1. The end of its log:\n") ||
		!strings.HasSuffix(reason, "\nKeyError: 'the cause'") || strings.Contains(reason, "heartbeat") || len(reason) > 2000 {
		quoted, _ := json.Marshal(reason)
		t.Errorf("the reason is %s", quoted)
	}
}
