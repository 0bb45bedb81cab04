package jobrunner_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

type deployment struct {
	t   *testing.T
	url string
	log *logBuffer
}

func deploy(t *testing.T, dir string) *deployment {
	t.Helper()
	return deployWith(t, jobrunner.Config{DataDir: dir})
}

// onEach runs a test on each kind of database.
func onEach(t *testing.T, test func(t *testing.T, c jobrunner.Config)) {
	t.Run("folder", func(t *testing.T) { test(t, jobrunner.Config{DataDir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) { test(t, jobrunner.Config{Engine: pgtest.Start(t)}) })
}

func deployWith(t *testing.T, c jobrunner.Config) *deployment {
	t.Helper()
	d := &deployment{t: t, log: new(logBuffer)}
	c.APIKey, c.Logger = "planted-key", slog.New(slog.NewTextHandler(d.log, nil))
	var handler atomic.Pointer[http.Handler]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	d.url, c.NodeURL = server.URL, server.URL
	j, err := jobrunner.New(t.Context(), c)
	if err != nil {
		server.Close()
		t.Fatal(err)
	}
	handler.Store(new(j.Handler()))
	t.Cleanup(func() {
		server.Close()
		err := j.Close()
		must.Hold(t, err == nil, err)
	})
	return d
}

// logBuffer is a log that can be read while it is written. A request's line may come after
// its response.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// awaitLog waits until the log contains a text n times, and returns the log.
func (d *deployment) awaitLog(text string, n int) string {
	d.t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		log := d.log.String()
		if strings.Count(log, text) >= n || time.Since(start) > 3*time.Minute {
			return log
		}
	}
}

func (d *deployment) client(v api.Version) *api.Client {
	d.t.Helper()
	c := must.Do(api.New(api.Settings{BaseURL: d.url, APIKey: "planted-key", Version: v}))(d.t)
	return c
}

// do sends a request with the deployment's key.
func (d *deployment) do(method, path, body string) (int, http.Header, string) {
	d.t.Helper()
	return d.send("planted-key", method, path, body)
}

// send sends a request with a key, or without one if it is empty.
func (d *deployment) send(key, method, path, body string) (int, http.Header, string) {
	d.t.Helper()
	resp, text := d.exchange(method, path, body, func(r *http.Request) {
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
	})
	return resp.StatusCode, resp.Header, text
}

// exchange sends a request without a key after edit has changed it, and reads the response.
func (d *deployment) exchange(method, path, body string, edit func(r *http.Request)) (resp *http.Response, text string) {
	d.t.Helper()
	req := must.Do(http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body)))(d.t)
	edit(req)
	resp = must.Do(http.DefaultClient.Do(req))(d.t)
	defer resp.Body.Close()
	all := must.Do(io.ReadAll(resp.Body))(d.t)
	return resp, string(all)
}

func echo(name string) api.Endpoint {
	return api.Endpoint{
		Name: name, Type: "QUEUE", Container: &api.Container{Image: new("builtin/echo")},
		Workers: api.Workers{Max: 2, IdleTimeout: new(int64(5))}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 4},
	}
}

// create creates an endpoint.
func (d *deployment) create(e api.Endpoint) (id string) {
	d.t.Helper()
	created := must.Do(d.client(api.V2).Endpoints.Create(d.t.Context(), e))(d.t)
	return created.ID
}

// withoutWorkers returns an endpoint whose jobs wait.
func withoutWorkers(name string) api.Endpoint {
	e := echo(name)
	e.Workers.Max = 0
	return e
}

// An endpoint that the management API creates runs a job of the job API.
func TestEndpointRunsJobs(t *testing.T) { onEach(t, testEndpointRunsJobs) }

func testEndpointRunsJobs(t *testing.T, c jobrunner.Config) {
	d := deployWith(t, c)
	for _, v := range []api.Version{api.V1, api.V2} {
		c := d.client(v)
		template, err := c.Templates.Create(t.Context(), api.Template{Name: "echo " + string(v), Image: "builtin/echo", Disk: 5, Category: "CPU", Serverless: true})
		must.Succeed(t, err)
		e := echo("e")
		e.Container, e.TemplateID = nil, &template.ID
		e, err = c.Endpoints.Create(t.Context(), e)
		must.Succeed(t, err)
		job, err := c.Jobs.RunSync(t.Context(), e.ID, api.Submission{Input: json.RawMessage(`{"say":"hello"}`)}, 0)
		must.Hold(t, err == nil && job.Status == "COMPLETED" && string(job.Output) == `{"say":"hello"}`, v, "the job is", job, err)
		must.Succeed(t, c.Endpoints.Delete(t.Context(), e.ID))
		if _, err := c.Jobs.Status(t.Context(), e.ID, job.ID); !api.IsNotFound(err) {
			t.Errorf("%s: after the endpoint was deleted its job is still there: %v", v, err)
		}
		if _, err := c.Jobs.Run(t.Context(), e.ID, api.Submission{Input: json.RawMessage(`{}`)}); !api.IsNotFound(err) {
			t.Errorf("%s: a deleted endpoint takes jobs: %v", v, err)
		}
	}
}

// A change of a template immediately affects the linked endpoint.
func TestTemplateChangesReachEndpoints(t *testing.T) { onEach(t, testTemplateChangesReachEndpoints) }

func testTemplateChangesReachEndpoints(t *testing.T, c jobrunner.Config) {
	d := deployWith(t, c)
	v1, v2 := d.client(api.V1), d.client(api.V2)
	template := must.Do(v1.Templates.Create(t.Context(), api.Template{Name: "t", Image: "unknown/image", Disk: 5, Category: "CPU", Serverless: true}))(t)
	e := echo("linked")
	e.Container, e.TemplateID = nil, &template.ID
	e = must.Do(v1.Endpoints.Create(t.Context(), e))(t)
	job := must.Do(v1.Jobs.Run(t.Context(), e.ID, api.Submission{Input: json.RawMessage(`{}`)}))(t)
	if h, err := v1.Jobs.Health(t.Context(), e.ID); err != nil || h.Jobs.InQueue != 1 {
		t.Fatalf("health is %+v, %v", h, err)
	}
	changed := template
	changed.Image = "builtin/echo"
	must.Do(v1.Templates.Update(t.Context(), template, changed))(t)
	for {
		got := must.Do(v2.Jobs.Status(t.Context(), e.ID, job.ID))(t)
		if got.Status == "COMPLETED" {
			break
		}
	}
}

// After the state is reopened, objects exist and queued jobs run.
func TestReopen(t *testing.T) { onEach(t, testReopen) }

func testReopen(t *testing.T, c jobrunner.Config) {
	var endpoint, job string
	t.Run("before", func(t *testing.T) {
		d := deployWith(t, c)
		client := d.client(api.V2)
		endpoint = d.create(withoutWorkers("e"))
		j := must.Do(client.Jobs.Run(t.Context(), endpoint, api.Submission{Input: json.RawMessage(`{"n":1}`)}))(t)
		job = j.ID
	})
	t.Run("after", func(t *testing.T) {
		d := deployWith(t, c)
		client := d.client(api.V2)
		have := must.Do(client.Endpoints.Get(t.Context(), endpoint))(t)
		want := have
		want.Workers.Max = 1
		must.Do(client.Endpoints.Update(t.Context(), have, want))(t)
		for {
			got := must.Do(client.Jobs.Status(t.Context(), endpoint, job))(t)
			if got.Status == "COMPLETED" {
				break
			}
		}
	})
}

// All APIs share one address. After /v2, reserved words belong to the management API, and any
// other segment is an endpoint's id.
func TestOneAddress(t *testing.T) {
	d := deploy(t, "")
	for path, says := range map[string]string{
		"/v2/templates":          `"templates"`,
		"/v2/serverless":         `"endpoints"`,
		"/v2/catalog/gpus":       `"gpus"`,
		"/v1/networkvolumes":     `[]`,
		"/v2/nowhere/health":     `{"error":`,
		"/v2/nowhere/status/x":   `{"error":`,
		"/v2/pods":               `"pods"`,
		"/v2/serverless/nowhere": `"title"`,
		"/v2/nowhere":            `"title"`,
		"/v1/nowhere":            `{"message":`,
	} {
		status, header, body := d.do("GET", path, "")
		must.Hold(t, strings.Contains(body, says) && header.Get("X-Request-Id") != "" && strings.Contains(header.Get("Content-Type"), "json"), path, status, header, body)
	}
	log := d.awaitLog("\n", 10)
	lines := strings.Count(log, "\n")
	must.Hold(t, lines == 10 && strings.Contains(log, "GET /v2/catalog/gpus") && !strings.Contains(log, "planted-key"), "the log has", lines, "lines for 10 calls", log)
}

func TestNeedsAKey(t *testing.T) {
	must.Hold(t, must.Err(jobrunner.New(t.Context(), jobrunner.Config{})) != nil, "a deployment without a key")
}
