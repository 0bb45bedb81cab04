package jobrunner_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

func (d *deployment) get(path, key string) (int, string) {
	d.t.Helper()
	status, _, text := d.send(key, http.MethodGet, path, "")
	return status, text
}

// The metrics count the requests by path templates, not by the paths that clients sent.
func TestMetrics(t *testing.T) { onEach(t, testMetrics) }

func testMetrics(t *testing.T, c jobrunner.Config) {
	d := deployWith(t, c)
	id := d.handler()
	for _, body := range []string{`{"input": {"op": "echo"}}`, `{"input": {"op": "fail"}}`} {
		if status, _, text := d.do("POST", "/v2/"+id+"/runsync", body); status != 200 {
			t.Fatal(text)
		}
	}
	d.do("POST", "/live/v2/"+id+"/status/none-such", "")
	d.do("GET", "/v2/made-up/made-up", "")
	d.do("MADEUP", "/made-up", "")
	status, text := d.get("/metrics", "")
	for _, want := range []string{
		`gpucloud_jobs{endpoint="` + id + `",state="IN_QUEUE"} 0`,
		`gpucloud_jobs_submitted_total{endpoint="` + id + `"} 2`,
		`gpucloud_jobs_ended_total{endpoint="` + id + `",state="COMPLETED"} 1`,
		`gpucloud_jobs_ended_total{endpoint="` + id + `",state="FAILED"} 1`,
		`gpucloud_job_delay_seconds_count{endpoint="` + id + `"} 2`,
		`gpucloud_workers{endpoint="` + id + `",state="THROTTLED"} 0`,
		`gpucloud_http_request_duration_seconds_count{code="200",route="POST /v2/{endpoint_id}/runsync"} 2`,
		`gpucloud_http_request_duration_seconds_count{code="404",route="POST /live/v2/{endpoint_id}/status/{job_id}"} 1`,
		`gpucloud_http_request_duration_seconds_count{code="201",route="POST /v2/serverless"} 1`,
		`gpucloud_http_request_duration_seconds_count{code="404",route="none"} 2`,
		`gpucloud_http_requests_open 1`,
	} {
		must.Contain(t, text, want)
	}
	if status != 200 || strings.Contains(text, "made-up") || strings.Contains(text, "MADEUP") || strings.Contains(text, "none-such") {
		t.Errorf("%d; a client's word is a label", status)
	}
	if t.Failed() {
		t.Log(text)
	}
	if status, _, text := d.do("DELETE", "/v2/serverless/"+id, ""); status != 204 {
		t.Fatal(text)
	}
	d.get("/metrics", "")
	if _, text := d.get("/metrics", ""); strings.Contains(text, id) {
		t.Error("a deleted endpoint has series")
	}
}

// With Remote, the metrics need a key with all rights, the page accepts any host name, and
// profiles are disabled.
func TestRemote(t *testing.T) {
	dir := t.TempDir()
	some := must.Do(apikey.At(dir).Add(apikey.Key{Name: "some", Endpoints: []string{"ep"}}))(t)
	d := deployWith(t, jobrunner.Config{DataDir: dir, Remote: true})
	for key, want := range map[string]int{"": 401, "wrong": 401, some: 403, "planted-key": 200} {
		if status, text := d.get("/metrics", key); status != want {
			t.Errorf("key %q: %d %s", key, status, text)
		}
	}
	if resp, _ := d.exchange("GET", "/", "", func(r *http.Request) { r.Host = "gpus.example.com" }); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	if status, _ := d.get("/ui/snapshot", some); status != 401 {
		t.Errorf("a key for one endpoint sees everything: %d", status)
	}
	must.Hold(t, must.Err(jobrunner.New(t.Context(), jobrunner.Config{APIKey: "k", Remote: true, Profile: true})) != nil, "profiles for other machines")
}

func TestProfiles(t *testing.T) {
	d := deployWith(t, jobrunner.Config{Profile: true})
	for path, want := range map[string]int{
		"/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/cmdline": 404, "/debug/pprof/none": 404,
	} {
		if status, text := d.get(path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// The requests of the page and of Prometheus, every few seconds, are not logged.
func TestUnloggedRequests(t *testing.T) {
	d := deploy(t, "")
	for _, path := range []string{"/", "/ui/page.css", "/ui/snapshot", "/metrics"} {
		if status, text := d.get(path, "planted-key"); status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	d.do("GET", "/v2/templates", "")
	log := d.awaitLog("/v2/templates", 1)
	must.Hold(t, strings.Count(log, "\n") == 1, "the log says", log)
}

// The metrics reject any method but GET and HEAD with 405.
func TestMetricsRejectOtherMethods(t *testing.T) {
	d := deployWith(t, jobrunner.Config{})
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 405, "POST": 405, "DELETE": 405, "MADEUP": 405} {
		allow := ""
		if want == 405 {
			allow = "GET, HEAD"
		}
		if status, header, _ := d.send("", method, "/metrics", ""); status != want || header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow %q", method, status, header.Get("Allow"))
		}
	}
}
