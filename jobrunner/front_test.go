package jobrunner_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
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
func TestMetrics(t *testing.T) { testEachDatabase(t, testMetrics) }

func testMetrics(t *testing.T, c jobrunner.Config) {
	d := deployWith(t, c)
	id := d.createConformanceEndpoint()
	for _, body := range []string{`{"input": {"op": "echo"}}`, `{"input": {"op": "fail"}}`} {
		d.must(200, "POST", "/v2/"+id+"/runsync", body)
	}
	d.do("POST", "/live/v2/"+id+"/status/none-such", "")
	d.do("GET", "/v2/made-up/made-up", "")
	d.do("MADEUP", "/made-up", "")
	d.do("POST", "/ui/call?op=purge-queue&endpoint="+id, "") // counted once
	status, text := d.get("/metrics", "")
	must.Contain(t, text,
		`gpucloud_jobs{endpoint="`+id+`",state="IN_QUEUE"} 0`,
		`gpucloud_jobs_submitted_total{endpoint="`+id+`"} 2`,
		`gpucloud_jobs_ended_total{endpoint="`+id+`",state="COMPLETED"} 1`,
		`gpucloud_jobs_ended_total{endpoint="`+id+`",state="FAILED"} 1`,
		`gpucloud_job_delay_seconds_count{endpoint="`+id+`"} 2`,
		`gpucloud_workers{endpoint="`+id+`",state="THROTTLED"} 0`,
		`gpucloud_http_request_duration_seconds_count{code="200",route="POST /v2/{endpoint_id}/runsync"} 2`,
		`gpucloud_http_request_duration_seconds_count{code="404",route="POST /live/v2/{endpoint_id}/status/{job_id}"} 1`,
		`gpucloud_http_request_duration_seconds_count{code="201",route="POST /v2/serverless"} 1`,
		`gpucloud_http_request_duration_seconds_count{code="404",route="none"} 2`,
		`gpucloud_http_request_duration_seconds_count{code="200",route="POST /live/v2/{endpoint_id}/purge-queue"} 1`,
		`gpucloud_http_requests_open 1`,
	)
	must.Hold(t, status == 200 && !strings.Contains(text, "/ui/call") && !strings.Contains(text, "made-up") && !strings.Contains(text, "MADEUP") &&
		!strings.Contains(text, "none-such"), status, "a client's text is in a label, or the page's call is counted twice")
	if t.Failed() {
		t.Log(text)
	}
	d.must(204, "DELETE", "/v2/serverless/"+id, "")
	d.get("/metrics", "")
	_, text = d.get("/metrics", "")
	must.Hold(t, !strings.Contains(text, id), "a deleted endpoint has series")
}

// With Remote, metrics need a key that reads the management API, the page accepts any host, and profiles are rejected.
func TestRemote(t *testing.T) {
	dir := t.TempDir()
	restricted := must.Do(apikey.FileIn(dir).Add(apikey.Key{Name: "some", Endpoints: []string{"ep"}}))(t)
	d := deployWith(t, jobrunner.Config{DataDir: dir, Remote: true})
	for key, want := range map[string]int{"": 401, "wrong": 401, restricted: 403, "planted-key": 200} {
		status, text := d.get("/metrics", key)
		must.Hold(t, status == want, "with the key", key, "the metrics are answered", status, text, "want", want)
	}
	resp, _ := d.exchange("GET", "/", "", func(r *http.Request) { r.Host = "gpus.example.com" })
	must.Require(t, resp.StatusCode == 200, "a request of the page with another host is answered", resp.Status)
	status, _ := d.get("/ui/snapshot", restricted)
	must.Hold(t, status == 401, "a key for one endpoint sees everything:", status)
	must.Hold(t, must.Err(jobrunner.New(t.Context(), jobrunner.Config{APIKey: "k", Remote: true, Profile: true})) != nil, "profiles for other machines are accepted")
}

func TestProfiles(t *testing.T) {
	d := deployWith(t, jobrunner.Config{Profile: true})
	for path, want := range map[string]int{
		"/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/cmdline": 404, "/debug/pprof/none": 404,
	} {
		status, text := d.get(path, "")
		must.Hold(t, status == want, path, "is answered", status, text, "want", want)
	}
}

// The requests of the page and of Prometheus, every few seconds, are not logged.
func TestUnloggedRequests(t *testing.T) {
	d := deploy(t, "")
	for _, path := range []string{"/", "/ui/page.css", "/ui/snapshot", "/metrics"} {
		status, text := d.get(path, "planted-key")
		must.Hold(t, status == 200, path, "is answered", status, text)
	}
	d.do("GET", "/v2/templates", "")
	log := d.log.Await(t, "/v2/templates", 1)
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
		status, header, _ := d.send("", method, "/metrics", "")
		must.Hold(t, status == want && header.Get("Allow") == allow, method, status, "Allow", header.Get("Allow"))
	}
}

// With --clock=admin the clock can skip a ttl of seven days: the job expires at its end, not a minute before.
func TestClockRoute(t *testing.T) {
	d := deployWith(t, jobrunner.Config{AdminClock: true})
	now := func() time.Time {
		t.Helper()
		status, _, body := d.do("GET", "/clock", "")
		var answer struct{ Now time.Time }
		must.Require(t, json.Unmarshal([]byte(body), &answer) == nil && status == 200, "GET /clock:", status, body)
		return answer.Now
	}
	postClock := func(body string, want int) {
		t.Helper()
		status, _, got := d.do("POST", "/clock", body)
		must.Hold(t, status == want, "POST /clock", body, status, got)
	}
	c := d.client(api.V2)
	id := d.createEndpoint(endpointWithoutWorkers("e"))
	job := must.Do(c.Jobs.Run(t.Context(), id, api.Submission{Input: json.RawMessage(`{}`), Policy: &api.JobPolicy{TTL: new(int64(604800000))}}))(t)
	before := now()
	postClock(`{"advance": 604740000}`, 200) // a minute less than seven days
	advanced := now().Sub(before)
	must.Hold(t, advanced >= 604740*time.Second && advanced <= 604760*time.Second, "the clock moved by", advanced)
	must.Equal(t, must.Err(c.Jobs.Status(t.Context(), id, job.ID)), nil, "reading the job a minute before its end")
	postClock(`{"advance": 60000}`, 200)
	_, err := c.Jobs.Status(t.Context(), id, job.ID)
	must.Hold(t, api.IsNotFound(err), "after its end the job is there:", err)
	for _, body := range []string{``, `{}`, `{"advance": 0}`, `{"advance": -1}`, `{"advance": 691200001}`, `{"advance": "1"}`, `{"advance": 1.5}`} {
		postClock(body, 400)
	}
	for _, body := range []string{`{"stop": true, "advance": 1}`, `{"stop": 1}`} {
		postClock(body, 400)
	}
	postClock(`{"stop": true}`, 200)
	if stopped := now(); !stopped.Equal(now()) {
		t.Error("a stopped clock goes on")
	} else if postClock(`{"advance": 5}`, 200); now().Sub(stopped) != 5*time.Millisecond {
		t.Errorf("a stopped clock is %s on after 5 ms", now().Sub(stopped))
	}
	status, header, _ := d.do("DELETE", "/clock", "")
	must.Hold(t, status == 405 && header.Get("Allow") == "GET, POST", "DELETE:", status, header)
}

func TestNoClockRouteByDefault(t *testing.T) {
	status, _, body := deploy(t, "").do("POST", "/clock", `{"advance": 1000}`)
	must.Hold(t, status == 404 && !strings.Contains(body, "now"), "POST /clock:", status, body)
}
