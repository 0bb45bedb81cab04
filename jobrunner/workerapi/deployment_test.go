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
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// deployment is a whole jobrunner on a real address, with one endpoint whose
// workers are real processes.
type deployment struct {
	*record
	t        *testing.T
	url      string
	client   *api.Client
	endpoint api.Endpoint
	log      *output // of the jobrunner
	starts   chan *started

	mu      sync.Mutex
	workers []*started
}

// started is a worker that the jobrunner started.
type started struct {
	*process
	id, key string
	log     *output
}

// Program makes the image handlers/KIND run the handler of that kind.
func (d *deployment) Program(image string) (worker.Program, error) {
	kind, ok := strings.CutPrefix(image, "handlers/")
	if !ok {
		return worker.Program{}, errors.New("no such handler")
	}
	return worker.Program{Start: func(_ context.Context, s worker.Spec) (worker.Process, error) {
		env := maps.Clone(s.Env)
		setHandler(env, kind)
		env["RUNPOD_PING_INTERVAL"], env["RUNPOD_DEBUG_LEVEL"] = "1000", "DEBUG"
		w := &started{id: s.Worker, key: s.Env["RUNPOD_AI_API_KEY"], log: new(output)}
		var err error
		if w.process, err = start(env, w.log); err != nil {
			return nil, err
		}
		d.mu.Lock()
		d.workers = append(d.workers, w)
		d.mu.Unlock()
		d.starts <- w
		return w, nil
	}}, nil
}

// deploy makes an endpoint of workers with a handler of the kind.
func deploy(t *testing.T, kind string, most int64) *deployment {
	t.Helper()
	python.Need(t)
	d := &deployment{t: t, log: new(output), starts: make(chan *started, 100)}
	server := httptest.NewUnstartedServer(nil)
	d.url = "http://" + server.Listener.Addr().String()
	j, err := jobrunner.New(t.Context(), jobrunner.Config{
		APIKey: "planted-key", URL: d.url, Programs: d, Logger: slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.record = newRecord(j.Handler())
	server.Config.Handler = d.record
	server.Start()
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, w := range d.workers {
			select {
			case <-w.Done():
			default:
				t.Errorf("the jobrunner left worker %s behind", w.id)
				w.Kill()
			}
			if strings.Contains(d.log.String(), w.key) {
				t.Error("the jobrunner's log has a worker's key in it")
			}
			if t.Failed() {
				t.Logf("worker %s wrote\n%s", w.id, w.log)
			}
		}
		if t.Failed() {
			t.Logf("the workers sent\n%s", d.text())
			t.Logf("the jobrunner wrote\n%s", d.log)
		}
	})
	if d.client, err = api.New(api.Settings{BaseURL: d.url, APIKey: "planted-key", Version: api.V2}); err != nil {
		t.Fatal(err)
	}
	d.endpoint, err = d.client.Endpoints.Create(t.Context(), api.Endpoint{
		Name: kind, Type: "QUEUE", Container: &api.Container{Image: new("handlers/" + kind)},
		Workers: api.Workers{Max: most, IdleTimeout: new(int64(60))}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// submit queues a job.
func (d *deployment) submit(input string, policy ...api.JobPolicy) string {
	d.t.Helper()
	s := api.Submission{Input: json.RawMessage(input)}
	if len(policy) > 0 {
		s.Policy = &policy[0]
	}
	job, err := d.client.Jobs.Run(d.t.Context(), d.endpoint.ID, s)
	if err != nil {
		d.t.Fatal(err)
	}
	return job.ID
}

func (d *deployment) status(id string) api.Job {
	d.t.Helper()
	job, err := d.client.Jobs.Status(d.t.Context(), d.endpoint.ID, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return job
}

// ends waits for a job's end, whatever it is.
func (d *deployment) ends(id string) api.Job {
	d.t.Helper()
	var job api.Job
	for late := time.Now().Add(patience); ; {
		req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+"/live/v2/"+d.endpoint.ID+"/status-sync/"+id+"?wait=10000", http.NoBody)
		if err != nil {
			d.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer planted-key")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			d.t.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&job)
		resp.Body.Close()
		if err != nil {
			d.t.Fatal(err)
		}
		if job.Status != "IN_QUEUE" && job.Status != "IN_PROGRESS" {
			return job
		}
		if time.Now().After(late) {
			d.t.Fatalf("the job is still %s", job.Status)
		}
	}
}

// wants waits for a job's end and looks at it.
func (d *deployment) wants(id, status, output string, retries int) api.Job {
	d.t.Helper()
	job := d.ends(id)
	if job.Status != status || string(job.Output) != output || job.Retries != retries {
		d.t.Errorf("the job is %s with output %s after %d retries, error %q; not %s with %s after %d",
			job.Status, job.Output, job.Retries, job.Error, status, output, retries)
	}
	return job
}

// next is the next worker that is started.
func (d *deployment) next() *started {
	d.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case w := <-d.starts:
		return w
	case <-late.C:
		d.t.Fatal("no worker is started")
		return nil
	}
}

// gone waits until a worker has ended, and tells whether it was killed.
func (d *deployment) gone(w *started) (killed bool) {
	d.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-w.Done():
	case <-late.C:
		d.t.Fatalf("worker %s does not end", w.id)
	}
	status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// silent checks that no process of a worker sends anything more, while another
// sends so many pings.
func (d *deployment) silent(w, other *started) {
	d.t.Helper()
	pings := len(d.all("ping/"+other.id, ""))
	count := func() int { return len(d.all("ping/"+w.id, "")) + len(d.all("job-take/"+w.id, "")) }
	before := count()
	d.asked(d.t, pings+3, "ping/"+other.id, "")
	if after := count(); after > before {
		d.t.Errorf("worker %s was killed, and goes on to speak", w.id)
	}
}

// posts sends of a job what a worker might.
func (d *deployment) posts(w *started, job, body string) (status int) {
	d.t.Helper()
	return d.as(w, http.MethodPost, "job-done/"+w.id+"/"+job, body)
}

// as sends a request with a worker's key.
func (d *deployment) as(w *started, method, operation, body string) (status int) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+"/v2/"+d.endpoint.ID+"/"+operation+"?gpu=x", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", w.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// idle sets after how many seconds an idle worker ends.
func (d *deployment) idle(seconds int64) {
	d.t.Helper()
	want := d.endpoint
	want.Workers.IdleTimeout = &seconds
	d.update(want)
}

func (d *deployment) update(want api.Endpoint) {
	d.t.Helper()
	e, err := d.client.Endpoints.Update(d.t.Context(), d.endpoint, want)
	if err != nil {
		d.t.Fatal(err)
	}
	d.endpoint = e
}

// get asks the job API.
func (d *deployment) get(path string) (status int, text string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+"/v2/"+d.endpoint.ID+path, http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer planted-key")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
