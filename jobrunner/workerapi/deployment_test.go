//go:build unix

package workerapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// deployment is a jobrunner at a real address, with one endpoint whose workers are real processes.
type deployment struct {
	*recorder
	t          *testing.T
	url        string
	client     *api.Client
	endpoint   api.Endpoint
	log        *livelog.Log // of the jobrunner
	newWorkers chan *startedWorker

	mu      sync.Mutex
	workers []*startedWorker
}

// startedWorker is a worker process that the jobrunner started.
type startedWorker struct {
	*process
	id, key string
	log     *livelog.Log
}

// Program maps the image handlers/KIND to the handler of that kind.
func (d *deployment) Program(image string) (run.Program, error) {
	kind, ok := strings.CutPrefix(image, "handlers/")
	if !ok {
		return run.Program{}, errors.New("no such handler")
	}
	return run.Program{Start: func(_ context.Context, s run.Spec) (run.Process, error) {
		env := maps.Clone(s.Env)
		setHandler(env, kind)
		env["RUNPOD_PING_INTERVAL"], env["RUNPOD_DEBUG_LEVEL"] = "1000", "DEBUG"
		w := &startedWorker{id: s.ID, key: s.Env["RUNPOD_AI_API_KEY"], log: new(livelog.Log)}
		var err error
		if w.process, err = startProcess(env, w.log); err != nil {
			return nil, err
		}
		d.mu.Lock()
		d.workers = append(d.workers, w)
		d.mu.Unlock()
		d.newWorkers <- w
		return w, nil
	}}, nil
}

// deploy starts a jobrunner with an endpoint whose workers run a handler of the kind.
func deploy(t *testing.T, kind string, maxWorkers int64) *deployment {
	t.Helper()
	python.Need(t)
	d := &deployment{t: t, log: new(livelog.Log), newWorkers: make(chan *startedWorker, 100)}
	server := httptest.NewUnstartedServer(nil)
	d.url = "http://" + server.Listener.Addr().String()
	j := must.Do(jobrunner.New(t.Context(), jobrunner.Config{
		APIKey: "planted-key", URL: d.url, Programs: d, Logger: slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}))(t)
	d.recorder = newRecorder(j.Handler())
	server.Config.Handler = d.recorder
	server.Start()
	t.Cleanup(func() {
		must.Equal(t, j.Close(), nil)
		server.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, w := range d.workers {
			select {
			case <-w.Done():
			default:
				t.Errorf("the jobrunner left worker %s behind", w.id)
				w.Stop(0)
			}
			must.Hold(t, !strings.Contains(d.log.String(), w.key), "the jobrunner's log contains a worker's key")
			if t.Failed() {
				t.Logf("worker %s wrote\n%s", w.id, w.log)
			}
		}
		if t.Failed() {
			t.Logf("the workers sent\n%s", d.text())
			t.Logf("the jobrunner wrote\n%s", d.log)
		}
	})
	d.client = must.Do(api.New(api.Settings{BaseURL: d.url, APIKey: "planted-key", Version: api.V2}))(t)
	d.endpoint = must.Do(d.client.Endpoints.Create(t.Context(), api.Endpoint{
		Name: kind, Type: "QUEUE", Container: &api.Container{Image: new("handlers/" + kind)},
		Workers: api.Workers{Max: maxWorkers, IdleTimeout: new(int64(60))}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 1},
	}))(t)
	return d
}

func (d *deployment) submit(input string, policy ...api.JobPolicy) string {
	d.t.Helper()
	s := api.Submission{Input: json.RawMessage(input)}
	if len(policy) > 0 {
		s.Policy = &policy[0]
	}
	return must.Do(d.client.Jobs.Run(d.t.Context(), d.endpoint.ID, s))(d.t).ID
}

func (d *deployment) getJob(id string) api.Job {
	d.t.Helper()
	return must.Do(d.client.Jobs.Status(d.t.Context(), d.endpoint.ID, id))(d.t)
}

func (d *deployment) waitForEnd(id string) api.Job {
	d.t.Helper()
	var job api.Job
	for deadline := time.Now().Add(waitTimeout); ; {
		_, text := d.send("Bearer planted-key", http.MethodGet, "/live/v2/"+d.endpoint.ID+"/status-sync/"+id+"?wait=10000", "")
		must.Succeed(d.t, json.Unmarshal([]byte(text), &job), text)
		if job.Status != "IN_QUEUE" && job.Status != "IN_PROGRESS" {
			return job
		}
		must.Require(d.t, !time.Now().After(deadline), "the job is still", job.Status)
	}
}

// expectJob waits for a job's end and compares its state.
func (d *deployment) expectJob(id, status, output string, retries int) api.Job {
	d.t.Helper()
	job := d.waitForEnd(id)
	if job.Status != status || string(job.Output) != output || job.Retries != retries {
		d.t.Errorf("the job is %s with output %s after %d retries, error %q; not %s with %s after %d",
			job.Status, job.Output, job.Retries, job.Error, status, output, retries)
	}
	return job
}

func (d *deployment) nextWorker() *startedWorker {
	d.t.Helper()
	select {
	case w := <-d.newWorkers:
		return w
	case <-time.After(waitTimeout):
		d.t.Fatal("no worker is started")
		return nil
	}
}

// waitForExit waits until a worker has ended, and reports whether it was killed.
func (d *deployment) waitForExit(w *startedWorker) (killed bool) {
	d.t.Helper()
	select {
	case <-w.Done():
	case <-time.After(waitTimeout):
		d.t.Fatalf("worker %s does not end", w.id)
	}
	status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// expectSilence checks that no process of a worker sends a request during three pings of another worker.
func (d *deployment) expectSilence(w, other *startedWorker) {
	d.t.Helper()
	pings := len(d.answeredRequests("ping/"+other.id, ""))
	count := func() int {
		return len(d.answeredRequests("ping/"+w.id, "")) + len(d.answeredRequests("job-take/"+w.id, ""))
	}
	before := count()
	d.waitForAnswered(d.t, pings+3, "ping/"+other.id, "")
	must.Hold(d.t, count() <= before, "worker", w.id, "was killed, and still sends requests")
}

func (d *deployment) postResult(w *startedWorker, job, body string) (status int) {
	d.t.Helper()
	return d.sendAs(w, http.MethodPost, "job-done/"+w.id+"/"+job, body)
}

func (d *deployment) sendAs(w *startedWorker, method, operation, body string) (status int) {
	d.t.Helper()
	status, _ = d.send(w.key, method, "/v2/"+d.endpoint.ID+"/"+operation+"?gpu=x", body)
	return status
}

func (d *deployment) update(want api.Endpoint) {
	d.t.Helper()
	d.endpoint = must.Do(d.client.Endpoints.Update(d.t.Context(), d.endpoint, want))(d.t)
}

// send sends a request with an Authorization header.
func (d *deployment) send(authorization, method, path, body string) (status int, text string) {
	d.t.Helper()
	req := must.Do(http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body)))(d.t)
	req.Header.Set("Authorization", authorization)
	resp := must.Do(http.DefaultClient.Do(req))(d.t)
	defer resp.Body.Close()
	return resp.StatusCode, string(must.Do(io.ReadAll(resp.Body))(d.t))
}
