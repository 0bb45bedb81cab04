//go:build unix

package jobrunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// checkedDeployment is a deployment whose responses are checked during an outage of its disk or PostgreSQL.
type checkedDeployment struct {
	*deployment
	server *pgtest.Server // nil without PostgreSQL

	newestEndpoint string // id
	// violations are responses with the database's text, or a status that an outage doesn't explain.
	mu         sync.Mutex
	violations []string
}

func startOnPostgres(t *testing.T) *checkedDeployment {
	t.Helper()
	server := pgtest.NewServer(t)
	d := startChecked(t, jobrunner.Config{DataDir: t.TempDir(), DatabaseURL: server.URL, Programs: sdkWorkers{}})
	d.server = server
	return d
}

func startChecked(t *testing.T, c jobrunner.Config) *checkedDeployment {
	t.Helper()
	d := &checkedDeployment{deployment: &deployment{t: t, log: new(livelog.Log)}}
	listener := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	d.url = "http://" + listener.Addr().String()
	c.APIKey, c.NoJobLimits, c.URL, c.Logger = "planted-key", true, d.url, slog.New(slog.NewTextHandler(d.log, nil))
	j := must.Do(jobrunner.New(t.Context(), c))(t)
	server := &http.Server{Handler: j.Handler()}
	go server.Serve(listener)
	t.Cleanup(func() {
		server.Close()
		must.Equal(t, j.Close(), nil)
		if lines := strings.Count(d.log.String(), "level=ERROR"); strings.Contains(d.log.String(), pgtest.Password) {
			t.Error("the password is in the log")
		} else {
			t.Logf("%d lines of errors in the log", lines)
		}
	})
	return d
}

// call sends a request and records a violation of the response. A 5xx must be 507, or 503 in the
// API's own form with Retry-After. No response has text from the database.
func (d *checkedDeployment) call(ctx context.Context, method, path, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer planted-key")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", err
	}
	d.checkResponse(method+" "+path, resp, string(text))
	return resp.StatusCode, string(text), nil
}

func (d *checkedDeployment) checkResponse(request string, resp *http.Response, text string) {
	violation := func(fault string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.violations = append(d.violations, fmt.Sprintf("%s: %s: %d %v %s", request, fault, resp.StatusCode, resp.Header, text))
	}
	for _, part := range []string{"SQLSTATE", "127.0.0.1:", "user=", "connect:", "dial", "terminat", "FATAL", "conn ", "EOF"} {
		if strings.Contains(strings.ReplaceAll(text, d.url, ""), part) {
			violation("shows " + part)
		}
	}
	var body struct {
		Error                  any
		Message, Title, Detail string
	}
	_ = json.Unmarshal([]byte(text), &body)
	path := resp.Request.URL.Path
	switch {
	case resp.StatusCode < 500, resp.StatusCode == http.StatusInsufficientStorage:
		return
	case resp.StatusCode != http.StatusServiceUnavailable:
		violation("is not 503")
	case resp.Header.Get("Retry-After") == "":
		violation("has no Retry-After")
	case strings.HasPrefix(path, "/v1/"):
		if body.Message == "" {
			violation("is not in the form of v1")
		}
	case strings.HasPrefix(path, "/v2/serverless"), strings.HasPrefix(path, "/v2/templates"):
		if body.Title == "" || body.Detail == "" || resp.Header.Get("Content-Type") != "application/problem+json" {
			violation("is not in the form of v2")
		}
	case strings.Contains(path, "/openai/"):
		object, _ := body.Error.(map[string]any)
		if message, _ := object["message"].(string); message == "" {
			violation("is not in the form of OpenAI")
		}
	default:
		if message, _ := body.Error.(string); message == "" {
			violation("is not in the form of the job API")
		}
	}
}

// createEndpointOf creates an endpoint whose workers run an image.
func (d *checkedDeployment) createEndpointOf(image string, workers int64) string {
	d.t.Helper()
	e := must.Do(d.client(api.V2).Endpoints.Create(d.t.Context(), api.Endpoint{
		Name: "e", Type: "QUEUE", Container: &api.Container{Image: &image},
		Workers: api.Workers{Max: workers, Min: workers}, Scaling: api.Scaling{Type: "REQUEST_COUNT", RequestCount: 1},
	}))(d.t)
	return e.ID
}

// sdkWorkers simulates processes with the public SDK: if the response to a result is 5xx, they post again after 2 and 3 s.
type sdkWorkers struct {
	// Handlers wait for release, unless it is nil, and then send to ends.
	release <-chan struct{}
	ends    chan<- struct{}
	// answered receives the response status of each posted result, unless it is nil.
	answered chan<- int
}

func (s sdkWorkers) Program(image string) (run.Program, error) {
	if image != "sdk/worker" {
		return run.Program{}, errors.New("nothing runs it")
	}
	return run.Program{Start: func(_ context.Context, spec run.Spec) (run.Process, error) {
		w := &sdkWorker{sdkWorkers: s, spec: spec, done: make(chan struct{})}
		w.life, w.end = context.WithCancel(context.Background())
		go w.work()
		return w, nil
	}}, nil
}

type sdkWorker struct {
	sdkWorkers
	spec run.Spec
	life context.Context
	end  context.CancelFunc
	done chan struct{}
}

func (w *sdkWorker) Done() <-chan struct{} { return w.done }
func (w *sdkWorker) Exit() run.Exit        { return run.Exit{Text: "killed"} }
func (w *sdkWorker) Stop(time.Duration)    { w.end(); <-w.done }
func (w *sdkWorker) Address() string       { return "" }
func (w *sdkWorker) Usage() run.Usage      { return run.Usage{} }

func (w *sdkWorker) url(variable, job string) string {
	return strings.NewReplacer("$RUNPOD_POD_ID", w.spec.ID, "$ID", job).Replace(w.spec.Env[variable])
}

func (w *sdkWorker) work() {
	defer close(w.done)
	for w.life.Err() == nil {
		var job struct {
			ID    string
			Input struct {
				MS     int
				N      int
				Output json.RawMessage
			}
		}
		status, body := w.send(http.MethodGet, w.url("RUNPOD_WEBHOOK_GET_JOB", w.spec.ID)+"&job_in_progress=0", "")
		if status != http.StatusOK || json.Unmarshal(body, &job) != nil {
			if status == 0 {
				sleep(w.life, 10*time.Millisecond) // the deployment ends
			}
			continue
		}
		for n := range job.Input.N {
			sleep(w.life, time.Duration(job.Input.MS)*time.Millisecond)
			w.post("RUNPOD_WEBHOOK_POST_STREAM", job.ID, fmt.Sprintf(`{"output": {"n":%d}}`, n))
		}
		if job.Input.N == 0 {
			sleep(w.life, time.Duration(job.Input.MS)*time.Millisecond)
		}
		if w.release != nil {
			<-w.release
			w.ends <- struct{}{}
		}
		w.post("RUNPOD_WEBHOOK_POST_OUTPUT", job.ID, `{"output": `+string(job.Input.Output)+`}`)
	}
}

func (w *sdkWorker) post(variable, job, body string) {
	for _, pause := range []time.Duration{2 * time.Second, 3 * time.Second, 0} {
		status, _ := w.send(http.MethodPost, w.url(variable, job)+"&isStream=false", body)
		if w.answered != nil {
			w.answered <- status
		}
		if status < 500 {
			return
		}
		sleep(w.life, pause)
	}
}

func (w *sdkWorker) send(method, url, body string) (int, []byte) {
	req, err := http.NewRequestWithContext(w.life, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	req.Header.Set("Authorization", w.spec.Env["RUNPOD_AI_API_KEY"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, text
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

type answer struct {
	status int
	text   string
}

func (d *checkedDeployment) callInBackground(method, path, body string) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		status, text, err := d.call(d.t.Context(), method, path, body)
		must.Hold(d.t, err == nil, "sending", method, path, "fails with", err)
		c <- answer{status, text}
	}()
	return c
}

// awaitJob waits until an endpoint's newest job has a state, and returns its path.
func (d *checkedDeployment) awaitJob(endpoint, state string) string {
	d.t.Helper()
	var list struct{ Requests []struct{ ID, Status string } }
	waitFor(d.t, func() (bool, any) {
		_, text, err := d.call(d.t.Context(), http.MethodGet, "/v2/"+endpoint+"/requests", "")
		must.Succeed(d.t, err)
		return json.Unmarshal([]byte(text), &list) == nil && len(list.Requests) > 0 && list.Requests[0].Status == state, text
	})
	return "/v2/" + endpoint + "/status/" + list.Requests[0].ID
}

// During an outage of the database each API answers from memory or with 503 in its own form, the log
// has at most one error, and clients keep waiting for jobs. Afterwards everything works again.
func TestEachAPIWhileTheDatabaseIsAway(t *testing.T) {
	acctest.LeaveToCI(t, "TestHealthWithoutTheDatabase tests an outage")
	t.Parallel()
	d := startOnPostgres(t)
	endpoint := d.createEndpointOf("builtin/conformance", 2)
	const submission = `{"input":{"op":"sleep","ms":3000,"output":"slept"}}`
	long := d.callInBackground(http.MethodPost, "/v2/"+endpoint+"/runsync", submission)
	first := d.awaitJob(endpoint, "IN_PROGRESS")
	short := d.callInBackground(http.MethodPost, "/v2/"+endpoint+"/runsync?wait=1000", submission)
	path := first
	for path == first { // until the second job runs
		path = d.awaitJob(endpoint, "IN_PROGRESS")
	}
	for range 3 {
		d.server.End(syscall.SIGQUIT)
		id := path[strings.LastIndex(path, "/")+1:]
		for _, request := range []struct{ method, path, body string }{
			{"POST", "/v2/" + endpoint + "/run", submission}, {"POST", "/v2/" + endpoint + "/runsync", submission},
			{"GET", path, ""}, {"GET", path + "?ttl=60000", ""}, {"GET", "/v2/" + endpoint + "/stream/" + id + "?wait=1000", ""},
			{"POST", "/v2/" + endpoint + "/cancel/" + id, ""}, {"POST", "/v2/" + endpoint + "/retry/" + id, ""},
			{"POST", "/v2/" + endpoint + "/purge-queue", ""}, {"GET", "/v2/" + endpoint + "/health", ""},
			{"GET", "/v2/" + endpoint + "/requests", ""}, {"POST", "/v2/" + endpoint + "/openai/v1/completions", "{}"},
			{"GET", "/live/v2/" + endpoint + "/status-sync/" + id + "?wait=1000", ""},
			{"GET", "/v1/endpoints", ""}, {"GET", "/v1/templates/x", ""}, {"DELETE", "/v1/networkvolumes/x", ""},
			{"POST", "/v1/templates", `{"name":"t","imageName":"i"}`}, {"PATCH", "/v1/endpoints/" + endpoint, `{"name":"n"}`},
			{"GET", "/v2/serverless", ""}, {"GET", "/v2/serverless/" + endpoint, ""}, {"DELETE", "/v2/serverless/" + endpoint, ""},
			{"PATCH", "/v2/serverless/" + endpoint, `{"name":"n"}`}, {"POST", "/v2/templates", `{"name":"t","image":"i","category":"CPU"}`},
		} {
			status, text, err := d.call(t.Context(), request.method, request.path, request.body)
			// The leader has active jobs and counts in memory. It answers until others may take over.
			inMemory := request.path == path || strings.HasSuffix(request.path, "/health") || strings.HasPrefix(request.path, "/live")
			must.Hold(t, err == nil && (status == http.StatusServiceUnavailable || inMemory && status == http.StatusOK), request.method, request.path, "is answered", status, text, err)
		}
		status, text, err := d.call(t.Context(), http.MethodGet, "/metrics", "")
		must.Hold(t, err == nil && status == http.StatusOK && !strings.Contains(text, "127.0.0.1"), "metrics:", status, err)
		if short != nil { // it was acknowledged: its client must learn its id
			a := <-short
			must.Hold(t, a.status == http.StatusOK && strings.Contains(a.text, id) && strings.Contains(a.text, `"IN_`), "a wait that ended while the database was away:", a.status, a.text)
			short = nil
		}
		d.server.Start()
		if long != nil {
			a := <-long
			must.Hold(t, a.status == http.StatusOK && strings.Contains(a.text, `"slept"`), "a request that waits through the outage is answered", a.status, a.text)
			long = nil
		}
		must.Equal(t, d.awaitJob(endpoint, "CANCELLED"), path, "the newest job, which was cancelled during the outage")
	}
	d.expectEnded(&acknowledgedJobs{})
	if n := strings.Count(d.log.String(), "level=ERROR"); n < 1 || n > 3 { // outages in quick succession are one
		t.Errorf("%d lines of errors in the log, want 1 to 3 for three outages:\n%s", n, d.log.String())
	}
}

// A hanging server counts as an outage.
func TestDatabaseThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time-outs")
	}
	d := startOnPostgres(t)
	endpoint := d.createEndpointOf("builtin/conformance", 2)
	running := d.callInBackground(http.MethodPost, "/v2/"+endpoint+"/runsync", `{"input":{"op":"sleep","ms":1500,"output":"slept"}}`)
	path := d.awaitJob(endpoint, "IN_PROGRESS")
	resume := d.server.Hang()
	for _, path := range []string{"/v1/endpoints", "/v2/serverless", path} { // the job last: at first the leader would answer it from memory
		started := time.Now()
		status, text, err := d.call(t.Context(), http.MethodGet, path, "")
		must.Hold(t, err == nil && status == http.StatusServiceUnavailable && time.Since(started) <= 3*time.Minute, // three time-outs are 35 s
			path, "is answered", status, text, err, "after", time.Since(started))
	}
	resume()
	a := <-running
	must.Hold(t, a.status == http.StatusOK && strings.Contains(a.text, `"slept"`), "a request that waits through the outage is answered", a.status, a.text)
	d.expectEnded(&acknowledgedJobs{})
}

// Probes need no key. A stopping jobrunner is alive but not ready.
func TestHealth(t *testing.T) {
	d := deploy(t, t.TempDir())
	for _, path := range []string{"/healthz", "/readyz"} {
		status, text := d.get(path, "")
		must.Hold(t, status == http.StatusOK && text == "ok\n", path, "is answered", status, text, "want 200 ok")
		status, _, _ = d.do(http.MethodPost, path, "")
		must.Hold(t, status == http.StatusMethodNotAllowed, "POST", path, status)
	}
	d.Drain(t.Context())
	status, text := d.get("/readyz", "")
	must.Hold(t, status == http.StatusServiceUnavailable && strings.Contains(text, "stopping"), "while it stops:", status, text)
	status, text = d.get("/healthz", "")
	must.Hold(t, status == http.StatusOK, "while it stops:", status, text)
}

// A jobrunner whose database is unavailable is alive but not ready, and its response doesn't name the database.
func TestHealthWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	d := startOnPostgres(t)
	d.waitForStatus(http.StatusOK)
	d.server.End(syscall.SIGQUIT)
	text := d.waitForStatus(http.StatusServiceUnavailable)
	must.Hold(t, strings.Contains(text, "the database does not answer") && !strings.Contains(text, "127.0.0.1"), "without the database", text)
	status, text := d.get("/healthz", "")
	must.Hold(t, status == http.StatusOK, "without the database:", status, text)
	d.server.Start()
	d.waitForStatus(http.StatusOK)
}

// waitForStatus waits for a status of the readiness probe.
func (d *checkedDeployment) waitForStatus(status int) (text string) {
	d.t.Helper()
	waitFor(d.t, func() (bool, any) {
		var got int
		got, text = d.get("/readyz", "")
		return got == status, text
	})
	return text
}
