package jobrunner_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// A handler with a beacon calls this machine, and no other, at its start and while it runs.
func TestBeacon(t *testing.T) {
	var calls atomic.Int64
	var odd atomic.Value
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			ID         string
			Attempt, N int64
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.ID == "" || body.Attempt != 1 || body.N != calls.Load() {
			odd.Store(body)
		}
		calls.Add(1)
	}))
	defer receiver.Close()
	moved := httptest.NewServer(http.RedirectHandler(receiver.URL, http.StatusTemporaryRedirect))
	defer moved.Close()
	d := deploy(t, "")
	id := d.handler()
	order := func(url, more, want string) {
		t.Helper()
		status, _, text := d.do("POST", "/v2/"+id+"/runsync", `{"input": {"op": "beacon", "url": "`+url+`"`+more+`}}`)
		must.Hold(t, status == 200 && strings.Contains(text, want), url, status, text)
	}
	order(receiver.URL, `, "ms": 2000, "every": 10, "output": "done"`, `"output":"done"`)
	n := calls.Load()
	must.Hold(t, n >= 2 && n <= 201 && odd.Load() == nil, n, "calls, and of them", odd.Load())
	before := calls.Load()
	order(moved.URL, `, "output": "done"`, `"output":"done"`)
	must.Equal(t, calls.Load(), before, "the handler went where an answer pointed")
	for _, url := range []string{"http://192.0.2.1/x", "http://169.254.169.254/", "ftp://127.0.0.1/", "http://"} {
		order(url, "", `"error":"invalid url: expected an `)
	}
}

// An advance of the clock waits for each call.
func TestBeaconKeepsTime(t *testing.T) {
	calls := make(chan struct{}, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls <- struct{}{}
		time.Sleep(10 * time.Millisecond) // a receiver in another process takes real time
	}))
	defer receiver.Close()
	d := deployWith(t, jobrunner.Config{AdminClock: true})
	id := d.handler()
	d.do("POST", "/clock", `{"stop": true}`)
	d.do("POST", "/v2/"+id+"/run", `{"input": {"op": "beacon", "url": "`+receiver.URL+`", "ms": 10000, "every": 1000}}`)
	<-calls
	d.do("POST", "/clock", `{"advance": 60000}`)
	must.Equal(t, len(calls), 10, "calls after the first one")
}
