//go:build unix

package jobrunner_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// answer of a request that goes on meanwhile.
type answer struct {
	status int
	text   string
}

func (o *outage) later(method, path, body string) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		status, text, err := o.call(o.t.Context(), method, path, body)
		must.Hold(o.t, err == nil, err)
		c <- answer{status, text}
	}()
	return c
}

// awaitJob waits until an endpoint's newest job has a state, and returns its path.
func (o *outage) awaitJob(endpoint, state string) string {
	o.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); sleep(o.t.Context(), 10*time.Millisecond) {
		_, text, err := o.call(o.t.Context(), http.MethodGet, "/v2/"+endpoint+"/requests", "")
		must.Succeed(o.t, err)
		var list struct{ Requests []struct{ ID, Status string } }
		if json.Unmarshal([]byte(text), &list) == nil && len(list.Requests) > 0 && list.Requests[0].Status == state {
			return "/v2/" + endpoint + "/status/" + list.Requests[0].ID
		}
	}
	o.t.Fatalf("no job became %s", state)
	return ""
}

// During an outage of the database each API answers 503 in its own form, the log has one
// line, and clients keep waiting for jobs. Afterwards everything works again.
func TestEachAPIWhileTheDatabaseIsAway(t *testing.T) {
	acctest.LeaveToCI(t, "TestHealthWithoutTheDatabase tests an outage")
	t.Parallel()
	o := startOutage(t)
	endpoint := o.endpoint("builtin/conformance", 2)
	const order = `{"input":{"op":"sleep","ms":3000,"output":"slept"}}`
	long := o.later(http.MethodPost, "/v2/"+endpoint+"/runsync", order)
	first := o.awaitJob(endpoint, "IN_PROGRESS")
	short := o.later(http.MethodPost, "/v2/"+endpoint+"/runsync?wait=1000", order)
	path := first
	for path == first {
		path = o.awaitJob(endpoint, "IN_PROGRESS")
	}
	for range 3 {
		o.server.End(syscall.SIGQUIT)
		id := path[strings.LastIndex(path, "/")+1:]
		for _, request := range []struct{ method, path, body string }{
			{"POST", "/v2/" + endpoint + "/run", order}, {"POST", "/v2/" + endpoint + "/runsync", order},
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
			status, text, err := o.call(t.Context(), request.method, request.path, request.body)
			must.Hold(t, err == nil && status == http.StatusServiceUnavailable, request.method, request.path, status, text, err)
		}
		status, text, err := o.call(t.Context(), http.MethodGet, "/metrics", "")
		must.Hold(t, err == nil && status == http.StatusOK && !strings.Contains(text, "127.0.0.1"), "metrics:", status, err)
		if short != nil { // it was acknowledged: its client must learn its id
			if a := <-short; a.status != http.StatusOK || !strings.Contains(a.text, id) || !strings.Contains(a.text, `"IN_`) {
				t.Errorf("a wait that ended while the database was away: %d %s", a.status, a.text)
			}
			short = nil
		}
		o.server.Start()
		if long != nil {
			a := <-long
			must.Hold(t, a.status == http.StatusOK && strings.Contains(a.text, `"slept"`), "a wait that outlasts the outage", a.status, a.text)
			long = nil
		}
		for o.awaitJob(endpoint, "COMPLETED") != path { // it is the newest
			t.Fatal("another job is the newest")
		}
	}
	o.ended(&acknowledged{})
	if n := strings.Count(o.log.String(), "level=ERROR"); n < 1 || n > 3 { // outages in quick succession are one
		t.Errorf("%d lines of errors in the log, want one of each outage:\n%s", n, o.log.String())
	}
}

// A hanging server counts as an outage.
func TestDatabaseThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time-outs")
	}
	o := startOutage(t)
	endpoint := o.endpoint("builtin/conformance", 2)
	running := o.later(http.MethodPost, "/v2/"+endpoint+"/runsync", `{"input":{"op":"sleep","ms":1500,"output":"slept"}}`)
	path := o.awaitJob(endpoint, "IN_PROGRESS")
	goOn := o.server.Hang()
	for _, path := range []string{path, "/v1/endpoints", "/v2/serverless"} {
		started := time.Now()
		status, text, err := o.call(t.Context(), http.MethodGet, path, "")
		must.Hold(t, err == nil && status == http.StatusServiceUnavailable && time.Since(started) <= 3*time.Minute, // three time-outs are 35 s
			path, status, text, err, "after", time.Since(started))
	}
	goOn()
	a := <-running
	must.Hold(t, a.status == http.StatusOK && strings.Contains(a.text, `"slept"`), "a wait that outlasts the outage", a.status, a.text)
	o.ended(&acknowledged{})
}

// Probes need no key. A stopping jobrunner, or one whose database is unavailable, is alive
// but not ready, and its response doesn't name the database.
func TestHealth(t *testing.T) {
	j := must.Do(jobrunner.New(t.Context(), jobrunner.Config{DataDir: t.TempDir(), APIKey: "planted-key"}))(t)
	server := httptest.NewServer(j.Handler())
	t.Cleanup(func() {
		server.Close()
		must.Equal(t, j.Close(), nil)
	})
	d := &deployment{t: t, url: server.URL}
	for _, path := range []string{"/healthz", "/readyz"} {
		status, text := d.get(path, "")
		must.Hold(t, status == http.StatusOK && text == "ok\n", path, status, text)
		status, _, _ = d.do(http.MethodPost, path, "")
		must.Hold(t, status == http.StatusMethodNotAllowed, "POST", path, status)
	}
	j.Drain(t.Context())
	status, text := d.get("/readyz", "")
	must.Hold(t, status == http.StatusServiceUnavailable && strings.Contains(text, "stopping"), "while it stops:", status, text)
	status, text = d.get("/healthz", "")
	must.Hold(t, status == http.StatusOK, "while it stops:", status, text)
}

func TestHealthWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	o := startOutage(t)
	o.becomes(http.StatusOK)
	o.server.End(syscall.SIGQUIT)
	text := o.becomes(http.StatusServiceUnavailable)
	must.Hold(t, strings.Contains(text, "the database does not answer") && !strings.Contains(text, "127.0.0.1"), "without the database", text)
	status, text := o.get("/healthz", "")
	must.Hold(t, status == http.StatusOK, "without the database:", status, text)
	o.server.Start()
	o.becomes(http.StatusOK)
}

// becomes waits for a status of the readiness probe.
func (o *outage) becomes(status int) (text string) {
	o.t.Helper()
	waitFor(o.t, func() (bool, any) {
		var got int
		got, text = o.get("/readyz", "")
		return got == status, text
	})
	return text
}
