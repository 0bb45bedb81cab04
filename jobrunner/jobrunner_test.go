package jobrunner_test

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

type deployment struct {
	t   *testing.T
	url string
	log *livelog.Log
	*jobrunner.Jobrunner
}

// deploy starts a deployment with the data folder dir, or with its state in memory if dir is "".
func deploy(t *testing.T, dir string) *deployment {
	t.Helper()
	return deployWith(t, jobrunner.Config{DataDir: dir})
}

// testEachDatabase runs a test on each kind of database.
func testEachDatabase(t *testing.T, test func(t *testing.T, c jobrunner.Config)) {
	t.Run("folder", func(t *testing.T) { test(t, jobrunner.Config{DataDir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) { test(t, jobrunner.Config{DatabaseURL: pgtest.Start(t)}) })
}

// deployWith starts a deployment. Texts that begin with planted- are secrets, which no log may have.
func deployWith(t *testing.T, c jobrunner.Config) *deployment {
	t.Helper()
	d := &deployment{t: t, log: new(livelog.Log)}
	c.APIKey, c.Logger = cmp.Or(c.APIKey, "planted-key"), slog.New(slog.NewTextHandler(d.log, nil))
	var handler atomic.Pointer[http.Handler]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	d.url, c.NodeURL = server.URL, cmp.Or(c.NodeURL, server.URL)
	j, err := jobrunner.New(t.Context(), c)
	if err != nil {
		server.Close()
		t.Fatal(err)
	}
	d.Jobrunner = j
	handler.Store(new(j.Handler()))
	t.Cleanup(func() {
		server.Close()
		must.Equal(t, j.Close(), nil)
	})
	return d
}

func (d *deployment) client(v api.Version) *api.Client {
	d.t.Helper()
	return must.Do(api.New(api.Settings{BaseURL: d.url, APIKey: "planted-key", Version: v}))(d.t)
}

// do sends a request with the deployment's key.
func (d *deployment) do(method, path, body string) (int, http.Header, string) {
	d.t.Helper()
	return d.send("planted-key", method, path, body)
}

// send sends a request with a key, or without a key if key is empty.
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
	return resp, string(must.Do(io.ReadAll(resp.Body))(d.t))
}

func echoEndpoint(name string) api.Endpoint {
	return api.Endpoint{
		Name: name, Type: "QUEUE", Container: &api.Container{Image: new("builtin/echo")},
		Workers: api.Workers{Max: 2, IdleTimeout: new(int64(5))}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 4},
	}
}

func (d *deployment) createEndpoint(e api.Endpoint) (id string) {
	d.t.Helper()
	return must.Do(d.client(api.V2).Endpoints.Create(d.t.Context(), e))(d.t).ID
}

func (d *deployment) awaitCompleted(endpoint, job string) {
	d.t.Helper()
	waitFor(d.t, func() (bool, any) {
		got := must.Do(d.client(api.V2).Jobs.Status(d.t.Context(), endpoint, job))(d.t)
		return got.Status == "COMPLETED", got
	})
}

func endpointWithoutWorkers(name string) api.Endpoint {
	e := echoEndpoint(name)
	e.Workers.Max = 0
	return e
}

// An endpoint that the management API creates runs a job of the job API.
func TestEndpointRunsJobs(t *testing.T) { testEachDatabase(t, testEndpointRunsJobs) }

func testEndpointRunsJobs(t *testing.T, c jobrunner.Config) {
	d := deployWith(t, c)
	for _, v := range []api.Version{api.V1, api.V2} {
		c := d.client(v)
		template := must.Do(c.Templates.Create(t.Context(), api.Template{Name: "echo " + string(v), Image: "builtin/echo", Disk: 5, Category: "CPU", Serverless: true}))(t)
		e := echoEndpoint("e")
		e.Container, e.TemplateID = nil, &template.ID
		e = must.Do(c.Endpoints.Create(t.Context(), e))(t)
		job, err := c.Jobs.RunToEnd(t.Context(), e.ID, api.Submission{Input: json.RawMessage(`{"say":"hello"}`)}, time.Minute, func(api.Job) {})
		must.Hold(t, err == nil && job.Status == "COMPLETED" && string(job.Output) == `{"say":"hello"}`, v, "the job is", job, err)
		must.Succeed(t, c.Endpoints.Delete(t.Context(), e.ID))
		_, err = c.Jobs.Status(t.Context(), e.ID, job.ID)
		must.Hold(t, api.IsNotFound(err), v, "after the endpoint was deleted its job is still there:", err)
		_, err = c.Jobs.Run(t.Context(), e.ID, api.Submission{Input: json.RawMessage(`{}`)})
		must.Hold(t, api.IsNotFound(err), v, "a deleted endpoint takes jobs:", err)
	}
}

// A change of a template immediately affects the linked endpoint.
func TestTemplateChangesReachEndpoints(t *testing.T) {
	testEachDatabase(t, testTemplateChangesReachEndpoints)
}

func testTemplateChangesReachEndpoints(t *testing.T, c jobrunner.Config) {
	d := deployWith(t, c)
	v1 := d.client(api.V1)
	template := must.Do(v1.Templates.Create(t.Context(), api.Template{Name: "t", Image: "unknown/image", Disk: 5, Category: "CPU", Serverless: true}))(t)
	e := echoEndpoint("linked")
	e.Container, e.TemplateID = nil, &template.ID
	e = must.Do(v1.Endpoints.Create(t.Context(), e))(t)
	job := must.Do(v1.Jobs.Run(t.Context(), e.ID, api.Submission{Input: json.RawMessage(`{}`)}))(t)
	h, err := v1.Jobs.Health(t.Context(), e.ID)
	must.Require(t, err == nil && h.Jobs.InQueue == 1, "health is", h, err)
	changed := template
	changed.Image = "builtin/echo"
	must.Do(v1.Templates.Update(t.Context(), template, changed))(t)
	d.awaitCompleted(e.ID, job.ID)
}

// After the state is reopened, objects exist and queued jobs run.
func TestReopen(t *testing.T) { testEachDatabase(t, testReopen) }

func testReopen(t *testing.T, c jobrunner.Config) {
	var endpoint, job string
	t.Run("before", func(t *testing.T) {
		d := deployWith(t, c)
		client := d.client(api.V2)
		endpoint = d.createEndpoint(endpointWithoutWorkers("e"))
		job = must.Do(client.Jobs.Run(t.Context(), endpoint, api.Submission{Input: json.RawMessage(`{"n":1}`)}))(t).ID
	})
	t.Run("after", func(t *testing.T) {
		d := deployWith(t, c)
		client := d.client(api.V2)
		have := must.Do(client.Endpoints.Get(t.Context(), endpoint))(t)
		want := have
		want.Workers.Max = 1
		must.Do(client.Endpoints.Update(t.Context(), have, want))(t)
		d.awaitCompleted(endpoint, job)
	})
}

// All APIs share an address. The segment after /v2 is a reserved word of the management API, or an endpoint's id.
func TestOneAddress(t *testing.T) {
	d := deploy(t, "")
	for path, want := range map[string]string{
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
		must.Hold(t, strings.Contains(body, want) && header.Get("X-Request-Id") != "" && strings.Contains(header.Get("Content-Type"), "json"), path, "is answered", status, header, body, "want JSON with a request id and", want)
	}
	log := d.log.Await(t, "\n", 10)
	lines := strings.Count(log, "\n")
	must.Hold(t, lines == 10 && strings.Contains(log, "GET /v2/catalog/gpus") && !strings.Contains(log, "planted-key"), "the log has", lines, "lines for 10 calls", log)
}

func TestNeedsAKey(t *testing.T) {
	must.Hold(t, must.Err(jobrunner.New(t.Context(), jobrunner.Config{})) != nil, "a deployment without a key starts")
}

// The catalog shows the machine's GPUs as available, even a type that it lacks, and all others as unavailable.
func TestTheMachinesGPUsAreInTheCatalog(t *testing.T) {
	inventory := must.Do(gpu.Simulate("mixed", slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(inventory.Close)
	d := deployWith(t, jobrunner.Config{GPUs: inventory})
	type answer struct {
		ID, Name, Manufacturer, Availability string
		Memory                               int
		Pool                                 *string
		CUDAVersions                         []struct {
			Version   string
			Available bool
		}
	}
	get := func(path string, result any) {
		t.Helper()
		text := d.must(http.StatusOK, "GET", "/v2/catalog/gpus"+path+"?include=AVAILABILITY&product=SERVERLESS", "").text
		must.Succeed(t, json.Unmarshal([]byte(text), result), path, text)
	}
	var list struct{ GPUs []answer }
	get("", &list)
	available := map[string]string{}
	for _, g := range list.GPUs {
		available[g.ID] = g.Availability
	}
	for id, want := range map[string]string{"NVIDIA L40S": "HIGH", "NVIDIA H100 80GB HBM3": "HIGH", "NVIDIA TITAN RTX": "HIGH", "NVIDIA H200": "NONE"} {
		must.Equal(t, available[id], want, id)
	}
	var titan answer
	get("/NVIDIA%20TITAN%20RTX", &titan)
	must.Hold(t, titan.Name == "TITAN RTX" && titan.Manufacturer == "NVIDIA" && titan.Memory == 24 && titan.Pool == nil &&
		len(titan.CUDAVersions) == 1 && titan.CUDAVersions[0].Version == "12.8" && titan.CUDAVersions[0].Available, "in the catalog, the type that the catalog file lacks is", titan)
}

// On a shared database, an idle endpoint and its worker cost at most one transaction in six seconds.
func TestIdleEndpointsCostLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("transactions are counted for seconds")
	}
	const endpoints, window = 200, 6 * time.Second
	url := pgtest.Start(t)
	d := deployWith(t, jobrunner.Config{DatabaseURL: url})
	for i := range endpoints {
		d.must(201, "POST", "/v2/serverless", fmt.Sprintf(`{"name":"e%d","image":"builtin/echo","cpu":[{"id":"cpu3c","vcpuCount":2}],"workers":{"min":%d,"max":1}}`, i, i%2))
	}
	db := must.Do(sql.Open("pgx", url))(t)
	defer db.Close()
	transactions := func() (n int) {
		must.Succeed(t, db.QueryRow("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&n))
		return n
	}
	// An idle session reports its statistics. Wait until they include the creation of the endpoints.
	least := 1 << 30
	for deadline := time.Now().Add(time.Minute); least > endpoints && time.Now().Before(deadline); {
		start, before := time.Now(), transactions()
		<-time.After(window)
		least = min(least, int(float64(transactions()-before)/time.Since(start).Seconds()*window.Seconds()))
	}
	t.Logf("%d idle endpoints cost %d transactions in %s", endpoints, least, window)
	must.Hold(t, least <= endpoints, "an idle endpoint costs more than one transaction in", window)
}
