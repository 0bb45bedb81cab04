//go:build unix

package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// sdk is a folder with the stand-in for the public worker SDK, beside which a
// handler imports it.
func sdk(t *testing.T) (dir string) {
	t.Helper()
	if exec.Command("python3", "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run() != nil {
		t.Skip("there is no python3 of at least 3.10")
	}
	dir = t.TempDir()
	standin, err := os.ReadFile("../../jobrunner/workerapi/testdata/standin.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "runpod"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "runpod", "__init__.py"), "from . import serverless\n")
	put(t, filepath.Join(dir, "runpod", "serverless.py"), string(standin))
	return dir
}

// handlers is a deployment on a data folder of its own, with one endpoint
// whose workers run a handler in Python; its folder has what the handler wrote.
type handlers struct {
	*process
	home, dir string
	endpoint  string // id
}

// trace has a handler write down the job and the worker's process before it
// works, and wait until the test lets it go on: with NAME.go in its folder.
const trace = `import os, runpod, time
here = os.path.dirname(os.path.abspath(__file__))
def note(kind, text):
    with open(os.path.join(here, kind), "a") as f:
        f.write(text + "\n")
note("starts", "%d %s" % (os.getpid(), os.environ.get("COLOR")))
def handler(job):
    order = job["input"]
    note("begins", "%s %d" % (order["name"], os.getpid()))
    while order.get("wait") and not os.path.exists(os.path.join(here, order["wait"] + ".go")):
        time.sleep(0.01)
    return {"name": order["name"], "color": os.environ.get("COLOR"), "pid": os.getpid()}
runpod.serverless.start({"handler": handler})
`

// serveHandlers starts a deployment, and makes the endpoint. The body has more
// members of it.
func serveHandlers(t *testing.T, more string, args ...string) *handlers {
	t.Helper()
	h := &handlers{home: t.TempDir(), dir: sdk(t)}
	put(t, filepath.Join(h.dir, "handler.py"), trace)
	put(t, filepath.Join(h.home, "jobrunner.yaml"), "engine: none\nrules:\n  - image: team/handler\n    process: {run: [python3, "+filepath.Join(h.dir, "handler.py")+"]}\n")
	h.start(t, args...)
	var made struct{ ID string }
	h.call(http.MethodPost, "/v2/serverless", `{"name": "handlers", "image": "team/handler", `+more+`}`, &made)
	h.endpoint = made.ID
	return h
}

// start starts the deployment on the data that there are.
func (h *handlers) start(t *testing.T, args ...string) {
	t.Helper()
	h.process = serve(t, environment(h.home, "GPUCLOUD_API_KEY=k"),
		append([]string{"--data=" + filepath.Join(h.home, "data"), "--config=" + filepath.Join(h.home, "jobrunner.yaml"), "--limits=off"}, args...)...)
}

// call sends a request by hand, and reads the answer into what is not nil.
func (p *process) call(method, path, body string, into any) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer k")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch out := into.(type) {
	case nil:
	case *string:
		*out = string(text)
	default:
		if err == nil && resp.StatusCode < 300 {
			err = json.Unmarshal(text, into)
		}
	}
	if err != nil || resp.StatusCode >= 300 {
		p.t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, text, err)
	}
}

// run queues a job that waits for a name, "" for nothing.
func (h *handlers) run(name, wait string) (id string) {
	h.t.Helper()
	job, err := h.client("k").Jobs.Run(h.t.Context(), h.endpoint, api.Submission{Input: fmt.Appendf(nil, `{"name": %q, "wait": %q}`, name, wait)})
	if err != nil {
		h.t.Fatal(err)
	}
	return job.ID
}

// release lets all jobs go on that wait for a name.
func (h *handlers) release(name string) { put(h.t, filepath.Join(h.dir, name+".go"), "") }

// lines are what handlers noted so far, of a kind.
func (h *handlers) lines(kind string) [][]string {
	text, _ := os.ReadFile(filepath.Join(h.dir, kind)) // nothing yet
	var out [][]string
	for line := range bytes.Lines(text) {
		if bytes.HasSuffix(line, []byte("\n")) {
			out = append(out, strings.Fields(string(line)))
		}
	}
	return out
}

// until waits for what other processes do, which tell nobody.
func (h *handlers) until(what string, done func() bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); !done(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			h.t.Fatalf("%s does not come", what)
		}
	}
}

// How a worker's GPUs do is in the management API, in the metrics, and in the
// log of a job's end; what its processes use as well.
func TestFiguresOfAWorker(t *testing.T) {
	h := serveHandlers(t, `"gpu": {"pools": ["HOPPER_141"], "count": 2}, "workers": {"min": 0, "max": 1}`, "--simulate-gpus=h200x8")
	id := h.run("one", "go")
	h.until("the job", func() bool { return len(h.lines("begins")) > 0 })
	type device struct {
		ID, TypeID                                                                string
		MemoryBytes, MemoryUsedBytes, Utilization, PowerWatts, TemperatureCelsius float64
	}
	var list struct {
		Workers []struct {
			ID, Status              string
			Reason                  *string
			GPUCount                int
			CPUSeconds, MemoryBytes float64
			GPUs                    []device
		}
	}
	h.call(http.MethodGet, "/v2/serverless/"+h.endpoint+"/workers", "", &list)
	if len(list.Workers) != 1 {
		t.Fatalf("%+v", list)
	}
	w := list.Workers[0]
	if w.Status != "RUNNING" || w.GPUCount != 2 || len(w.GPUs) != 2 || w.CPUSeconds <= 0 || w.MemoryBytes < 1<<20 || w.Reason != nil {
		t.Fatalf("%+v", w)
	}
	var metrics string
	h.call(http.MethodGet, "/metrics", "", &metrics)
	for _, d := range w.GPUs {
		if d.TypeID != "NVIDIA H200" || d.Utilization != 0.96 || d.PowerWatts != 540 || d.TemperatureCelsius != 66 || d.MemoryUsedBytes < d.MemoryBytes/2 || d.MemoryUsedBytes > d.MemoryBytes {
			t.Errorf("%+v", d)
		}
		for _, want := range []string{`held{gpu="%s"} 1`, `utilization_ratio{gpu="%s"} 0.96`, `memory_used_bytes{gpu="%s"} `, `power_watts{gpu="%s"} 540`, `temperature_celsius{gpu="%s"} 66`} {
			if want = "gpucloud_gpu_" + fmt.Sprintf(want, d.ID); !strings.Contains(metrics, want) {
				t.Errorf("the metrics lack %s", want)
			}
		}
	}
	for _, of := range []string{"cpu_seconds_total", "memory_bytes"} {
		if !regexp.MustCompile(`gpucloud_worker_` + of + `\{endpoint="` + h.endpoint + `",worker="` + w.ID + `"\} [0-9.e+]*[1-9]`).MatchString(metrics) {
			t.Errorf("the metrics lack the worker's %s", of)
		}
	}
	h.release("go")
	h.until("the job's end", func() bool {
		job, err := h.client("k").Jobs.Status(t.Context(), h.endpoint, id)
		return err == nil && job.Status == "COMPLETED"
	})
	h.interrupt()
	var end string
	for line := range strings.Lines(h.stderr.String()) {
		if strings.Contains(line, "a job left its worker") {
			end += line
		}
	}
	for _, want := range []string{
		"endpoint=" + h.endpoint, "worker=" + w.ID, "job=" + id, "outcome=COMPLETED", "ran=", "cpu=", "memory_bytes=", "gpu0.uuid=" + w.GPUs[0].ID, "gpu1.uuid=" + w.GPUs[1].ID,
		"gpu0.utilization_ratio=0.96", "gpu1.memory_used_bytes=", "gpu0.power_watts=540", "gpu1.temperature_celsius=66",
	} {
		if !strings.Contains(end, want) || strings.Count(end, "\n") != 1 {
			t.Errorf("no %s in the end's log\n%s", want, end)
		}
	}
}
