//go:build unix

package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
)

// sdkFolder returns a folder with the stand-in for the public SDK. Handlers in it can import the SDK.
func sdkFolder(t *testing.T) (dir string) {
	t.Helper()
	python.Need(t)
	dir = t.TempDir()
	standin := must.ReadFile(t, "../../jobrunner/workerapi/testdata/standin.py")
	writeFile(t, filepath.Join(dir, "runpod", "__init__.py"), "from . import serverless\n")
	writeFile(t, filepath.Join(dir, "runpod", "serverless.py"), string(standin))
	return dir
}

// testDeployment is a deployment with data in home. Its workers run a handler that writes files into dir.
type testDeployment struct {
	*process
	home, dir string
	endpoint  string   // id of the endpoint
	env       []string // additional variables of the jobrunner
}

// tracingHandler records its process and jobs. A job with {"wait": NAME} ends once the test creates the file NAME.go.
const tracingHandler = `import os, runpod, time
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

// startDeployment starts a deployment without an endpoint.
func startDeployment(t *testing.T, args ...string) *testDeployment {
	t.Helper()
	h := &testDeployment{home: t.TempDir(), dir: sdkFolder(t)}
	writeFile(t, filepath.Join(h.dir, "handler.py"), tracingHandler)
	writeFile(t, filepath.Join(h.home, "jobrunner.yaml"), "engine: none\nrules:\n  - image: team/handler\n    process: {run: [python3, "+filepath.Join(h.dir, "handler.py")+"]}\n")
	h.start(t, args...)
	return h
}

// startWithEndpoint starts a deployment and creates the endpoint. fields are further fields of its request.
func startWithEndpoint(t *testing.T, fields string, args ...string) *testDeployment {
	t.Helper()
	h := startDeployment(t, args...)
	h.createEndpoint("/v2/serverless", `{"name": "handlers", "image": "team/handler", `+fields+`}`)
	return h
}

// createEndpoint creates an endpoint, which the methods of h then use.
func (h *testDeployment) createEndpoint(path, body string) {
	h.t.Helper()
	h.endpoint = h.createObject(path, body)
}

// start starts the deployment with its current data folder.
func (h *testDeployment) start(t testing.TB, args ...string) {
	t.Helper()
	h.process = serve(t, environment(h.home, append(h.env, "GPUCLOUD_API_KEY=k")...),
		append([]string{"--data=" + filepath.Join(h.home, "data"), "--config=" + filepath.Join(h.home, "jobrunner.yaml"), "--limits=off"}, args...)...)
}

func (p *process) createObject(path, body string) (id string) {
	p.t.Helper()
	var created struct{ ID string }
	p.call(http.MethodPost, path, body, &created)
	return created.ID
}

func (p *process) createVolume() string {
	p.t.Helper()
	return p.createObject("/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"EU-RO-1"}`)
}

// call sends a request and decodes the response, unless into is nil.
func (p *process) call(method, path, body string, into any) {
	p.t.Helper()
	must.Succeed(p.t, p.tryCall(method, path, body, into))
}

func (p *process) tryCall(method, path, body string, into any) error {
	resp, text, err := send(p.t.Context(), method, p.url+path, "k", body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	switch out := into.(type) {
	case nil:
	case *string:
		*out = text
	default:
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return fmt.Errorf("%s %s: %s: %w", method, path, text, err)
		}
	}
	return nil
}

func (h *testDeployment) submit(input string) (id string) {
	h.t.Helper()
	return must.Do(h.client("k").Jobs.Run(h.t.Context(), h.endpoint, api.Submission{Input: []byte(input)}))(h.t).ID
}

// queueJob submits a job. It ends only after release(wait), unless wait is "".
func (h *testDeployment) queueJob(name, wait string) (id string) {
	h.t.Helper()
	return h.submit(fmt.Sprintf(`{"name": %q, "wait": %q}`, name, wait))
}

func (h *testDeployment) awaitEnd(id string) (job api.Job) {
	h.t.Helper()
	h.waitUntil("the end of "+id, func() bool {
		job = must.Do(h.client("k").Jobs.Status(h.t.Context(), h.endpoint, id))(h.t)
		return job.Finished()
	})
	return job
}

// release lets all jobs that wait for a name continue.
func (h *testDeployment) release(name string) { writeFile(h.t, filepath.Join(h.dir, name+".go"), "") }

// recordedLines returns the words of each line that handlers have written to a file.
func (h *testDeployment) recordedLines(file string) [][]string {
	text, _ := os.ReadFile(filepath.Join(h.dir, file)) // may not exist yet
	var lines [][]string
	for line := range bytes.Lines(text) {
		if bytes.HasSuffix(line, []byte("\n")) {
			lines = append(lines, strings.Fields(string(line)))
		}
	}
	return lines
}

// The management API, the metrics and the log of a job's end have the utilization of GPUs and processes.
func TestUtilizationOfAWorker(t *testing.T) {
	t.Parallel()
	h := startWithEndpoint(t, `"gpu": {"pools": ["HOPPER_141"], "count": 2}, "workers": {"min": 0, "max": 1}`, "--simulate-gpus=h200x8")
	id := h.queueJob("one", "go")
	h.waitUntil("the job", func() bool { return len(h.recordedLines("begins")) > 0 })
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
	h.waitUntil("the worker's usage", func() bool { // a new process may not have used any
		h.call(http.MethodGet, "/v2/serverless/"+h.endpoint+"/workers", "", &list)
		return len(list.Workers) != 1 || list.Workers[0].CPUSeconds > 0 && list.Workers[0].MemoryBytes >= 1<<20
	})
	must.Require(t, len(list.Workers) == 1, "the workers are", list)
	w := list.Workers[0]
	must.Require(t, w.Status == "RUNNING" && w.GPUCount == 2 && len(w.GPUs) == 2 && w.Reason == nil, "the worker is", w)
	var metrics string
	h.call(http.MethodGet, "/metrics", "", &metrics)
	for _, d := range w.GPUs {
		must.Hold(t, d.TypeID == "NVIDIA H200" && d.Utilization == 0.96 && d.PowerWatts == 540 && d.TemperatureCelsius == 66 &&
			d.MemoryUsedBytes >= d.MemoryBytes/2 && d.MemoryUsedBytes <= d.MemoryBytes, "the GPU is", d)
		for _, want := range []string{`held{gpu="%s"} 1`, `utilization_ratio{gpu="%s"} 0.96`, `memory_used_bytes{gpu="%s"} `, `power_watts{gpu="%s"} 540`, `temperature_celsius{gpu="%s"} 66`} {
			want = "gpucloud_gpu_" + fmt.Sprintf(want, d.ID)
			must.Hold(t, strings.Contains(metrics, want), "the metrics lack", want)
		}
	}
	for _, metric := range []string{"cpu_seconds_total", "memory_bytes"} {
		must.Hold(t, regexp.MustCompile(`gpucloud_worker_`+metric+`\{endpoint="`+h.endpoint+`",worker="`+w.ID+`"\} [0-9.e+]*[1-9]`).MatchString(metrics), "the metrics lack the worker's", metric)
	}
	h.release("go")
	must.Equal(t, h.awaitEnd(id).Status, "COMPLETED", "the job's status")
	h.interrupt()
	var endLines string
	for line := range strings.Lines(h.stderr.String()) {
		if strings.Contains(line, "a job left its worker") {
			endLines += line
		}
	}
	for _, want := range []string{
		"endpoint=" + h.endpoint, "worker=" + w.ID, "job=" + id, "outcome=COMPLETED", "ran=", "cpu=", "memory_bytes=", "gpu0.uuid=" + w.GPUs[0].ID, "gpu1.uuid=" + w.GPUs[1].ID,
		"gpu0.utilization_ratio=0.96", "gpu1.memory_used_bytes=", "gpu0.power_watts=540", "gpu1.temperature_celsius=66",
	} {
		must.Hold(t, strings.Contains(endLines, want) && strings.Count(endLines, "\n") == 1, "the line of the job's end lacks", want, "or isn't the only one:", endLines)
	}
}

// awaitResult waits for the end of a job, and returns its output (the worker's color and process) and retries.
func (h *testDeployment) awaitResult(id string) (color string, pid, retries int) {
	h.t.Helper()
	job := h.awaitEnd(id)
	var output struct {
		Color string
		PID   int
	}
	err := json.Unmarshal(job.Output, &output)
	must.Require(h.t, err == nil && job.Status == "COMPLETED", "the job is", job.Status, "with", string(job.Output), "error", job.Error)
	return output.Color, output.PID, job.Retries
}

// countTakes counts how often each job began, by the job's name.
func (h *testDeployment) countTakes() map[string]int {
	takes := map[string]int{}
	for _, words := range h.recordedLines("begins") {
		takes[words[0]]++
	}
	return takes
}

// expectCleanStop stops the deployment and expects that no worker is left.
func (h *testDeployment) expectCleanStop(stop func()) {
	h.t.Helper()
	stop()
	for _, words := range h.recordedLines("starts") {
		pid, _ := strconv.Atoi(words[0])
		must.Hold(h.t, !isRunning(pid), "the worker", pid, "survived its deployment")
	}
}

// After a stop or kill -9, each acknowledged job completes, results are kept, and no process is left.
func TestAStopAmongJobs(t *testing.T) {
	acctest.LeaveToCI(t, "TestSurvivesKills and TestStopsWhileRequestsWait test its parts")
	t.Parallel()
	for name, stop := range map[string]func(h *testDeployment){
		"SIGTERM": func(h *testDeployment) {
			h.expectCleanStop(func() {
				h.cmd.Process.Signal(syscall.SIGTERM)
				must.Equal(h.t, h.cmd.Wait(), nil, "the jobrunner ended with", &h.stderr)
			})
		},
		"SIGKILL": func(h *testDeployment) { h.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startWithEndpoint(t, `"cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 2, "max": 2}`)
			doneJob := h.queueJob("done", "")
			h.awaitResult(doneJob)
			runningJobs := []string{h.queueJob("first", "go"), h.queueJob("second", "go")}
			h.waitUntil("two jobs", func() bool { return len(h.recordedLines("begins")) == 3 })
			var queuedJobs []string
			for n := range 10 {
				queuedJobs = append(queuedJobs, h.queueJob(fmt.Sprint("queued-", n), ""))
			}
			firstStarts := h.recordedLines("starts")
			stop(h)
			h.start(t)
			h.waitUntil("the jobs that ran", func() bool { return len(h.recordedLines("begins")) >= 5 })
			for _, words := range firstStarts {
				pid, _ := strconv.Atoi(words[0])
				must.Hold(t, !isRunning(pid), "the worker", pid, "of the first deployment still runs")
			}
			h.release("go")
			for _, id := range slices.Concat([]string{doneJob}, runningJobs, queuedJobs) {
				want := 0
				if name == "SIGKILL" && slices.Contains(runningJobs, id) {
					want = 1
				}
				_, _, retries := h.awaitResult(id)
				must.Hold(t, retries == want, "the job has", retries, "retries, want", want)
			}
			want := map[string]int{"done": 1, "first": 2, "second": 2}
			for n := range 10 {
				want[fmt.Sprint("queued-", n)] = 1
			}
			must.Equal(t, h.countTakes(), want, "starts of jobs")
			h.expectCleanStop(h.interrupt)
		})
	}
}

// The example workers work: one uses the worker protocol, one serves HTTP behind a load balancer.
func TestExampleWorkers(t *testing.T) {
	t.Parallel()
	python.Need(t)
	rules := must.Do(filepath.Abs("../../examples/jobrunner.yaml"))(t)
	home := t.TempDir()
	p := serve(t, environment(home, "GPUCLOUD_API_KEY=k"), "--ephemeral", "--config="+rules)
	c := p.client("k")
	ids := map[string]string{}
	for name, kind := range map[string]string{"protocol": "QUEUE", "web": "LOAD_BALANCER"} {
		e := api.Endpoint{Name: name, Type: kind, Container: &api.Container{Image: new("example/" + name)}, Workers: api.Workers{Max: 1}}
		e.Scaling = api.Scaling{Type: "REQUEST_COUNT", RequestCount: 1}
		created := must.Do(c.Endpoints.Create(t.Context(), e))(t)
		ids[name] = created.ID
	}
	j := jobCommands{t, environment(home, "GPUCLOUD_API_KEY=k", "GPUCLOUD_BASE_URL="+p.url)}
	out, stderr, code := j.run("", "run", "protocol", "--input", `{"text": "hello"}`, "--json")
	must.Hold(t, code == 0 && strings.Contains(out, `"output":{"text":"HELLO"}`), "exit status", code, "stdout", out, "stderr", stderr)
	out, stderr, code = j.run("", "run", "protocol", "--json")
	must.Hold(t, code == 1 && strings.Contains(out, `KeyError('text')`), "exit status", code, "stdout", out, "stderr", stderr)
	status, body := p.get("/v2/" + ids["web"] + "/any?x=1")
	must.Hold(t, status == http.StatusOK && body == `{"path": "/any?x=1"}`, "the web worker answered", status, body)
	_, stderr, code = j.run("", "run", "web")
	must.Hold(t, code == 2 && strings.Contains(stderr, "is a load balancer, which has no jobs: send your requests to its workers, at "+p.url+"/v2/"+ids["web"]), "a job for a load balancer: exit status", code, "stderr", stderr)
}
