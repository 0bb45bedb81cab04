package jobrunner_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

func (d *deployment) createConformanceEndpoint() (id string) {
	d.t.Helper()
	e := echoEndpoint("e")
	e.Container = &api.Container{Image: new("builtin/conformance")}
	return d.createEndpoint(e)
}

// A webhook's receiver is called when a worker has finished the job.
func TestWebhook(t *testing.T) {
	bodies := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
	}))
	defer receiver.Close()
	d := deploy(t, "")
	id := d.createConformanceEndpoint()
	d.must(200, "POST", "/v2/"+id+"/run", `{"input": {"op": "echo"}, "webhook": "`+receiver.URL+`/x", "s3Config": {"accessSecret": "planted"}}`)
	body := <-bodies
	must.Hold(t, strings.Contains(body, `"output":{"op": "echo"}`) && strings.Contains(body, `"input":{"op": "echo"},"webhook":"`+receiver.URL+`/x"}`) && !strings.Contains(body, "planted"), "the receiver got", body)
	must.Contain(t, d.must(400, "POST", "/v2/"+id+"/run", `{"input": {}, "webhook": "http://169.254.169.254/"}`).text, "--webhook-allow")
	must.Hold(t, must.Err(jobrunner.New(t.Context(), jobrunner.Config{APIKey: "k", WebhookAllow: []string{"http://x"}})) != nil, "a URL is taken for a host")
}

// The handlers that wrap the job API forward a worker's chunks, and abort the response if the worker fails.
func TestOpenAI(t *testing.T) {
	d := deploy(t, "")
	id := d.createConformanceEndpoint()
	for _, c := range []struct {
		input  string
		status int
		want   string
	}{
		{`{"op": "bytes", "n": 3}`, 200, `"xxx"`},
		{`{"op": "stream", "n": 2, "bytes": 3}`, 200, `xxxxxx`},
		{`{"op": "stream", "n": 1}`, 200, `{"n":0}`},
		{`{"op": "fail", "message": "no luck"}`, 500, `{"error":{"message":"no luck","type":"server_error"}}`},
	} {
		status, _, text := d.do("POST", "/live/v2/"+id+"/openai/v1/completions", c.input)
		must.Hold(t, status == c.status && text == c.want, c.input, "is answered", status, text, "want", c.status, c.want)
	}
	req := must.Do(http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v2/"+id+"/openai/v1/completions", strings.NewReader(`{"op": "stream", "n": 2, "bytes": 3, "message": "broke"}`)))(t)
	req.Header.Set("Authorization", "Bearer planted-key")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // the connection ended before the response began
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.Hold(t, err != nil, "an answer that broke off looks whole:", resp.StatusCode, string(text))
}

// A job of builtin/conformance with a beacon calls that URL at its start and while it runs, but only on this machine.
func TestBeacon(t *testing.T) {
	var calls atomic.Int64
	var unexpected atomic.Value
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			ID         string
			Attempt, N int64
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.ID == "" || body.Attempt != 1 || body.N != calls.Load() {
			unexpected.Store(body)
		}
		calls.Add(1)
	}))
	defer receiver.Close()
	redirect := httptest.NewServer(http.RedirectHandler(receiver.URL, http.StatusTemporaryRedirect))
	defer redirect.Close()
	d := deploy(t, "")
	id := d.createConformanceEndpoint()
	runBeacon := func(url, members, want string) {
		t.Helper()
		status, _, text := d.do("POST", "/v2/"+id+"/runsync", `{"input": {"op": "beacon", "url": "`+url+`"`+members+`}}`)
		must.Hold(t, status == 200 && strings.Contains(text, want), "a beacon to", url, "is answered", status, text, "want 200 with", want)
	}
	runBeacon(receiver.URL, `, "ms": 2000, "every": 10, "output": "done"`, `"output":"done"`)
	n := calls.Load()
	must.Hold(t, n >= 2 && n <= 201 && unexpected.Load() == nil, n, "calls, an unexpected one:", unexpected.Load())
	before := calls.Load()
	runBeacon(redirect.URL, `, "output": "done"`, `"output":"done"`)
	must.Equal(t, calls.Load(), before, "calls after an answer that redirects")
	for _, url := range []string{"http://192.0.2.1/x", "http://169.254.169.254/", "ftp://127.0.0.1/", "http://"} {
		runBeacon(url, "", `"error":"invalid url: expected an `)
	}
}

// An advance of the clock waits for each call of a beacon.
func TestBeaconKeepsTime(t *testing.T) {
	calls := make(chan struct{}, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls <- struct{}{}
		time.Sleep(10 * time.Millisecond) // a receiver in another process takes real time
	}))
	defer receiver.Close()
	d := deployWith(t, jobrunner.Config{AdminClock: true})
	id := d.createConformanceEndpoint()
	d.do("POST", "/clock", `{"stop": true}`)
	d.do("POST", "/v2/"+id+"/run", `{"input": {"op": "beacon", "url": "`+receiver.URL+`", "ms": 10000, "every": 1000}}`)
	<-calls
	d.do("POST", "/clock", `{"advance": 60000}`)
	must.Equal(t, len(calls), 10, "calls after the first one")
}
