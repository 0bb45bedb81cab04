package jobapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// deployment is the job API over HTTP in a bubble of virtual time. The test takes and reports jobs.
type deployment struct {
	t              *testing.T
	engine         *engine.Engine
	client         *http.Client
	deletedLookups int          // lookups that still find the endpoint "deleted"
	queuedCalls    atomic.Int32 // calls of OnQueued
	workersMax     int          // of every endpoint
}

const key = "the-key"

// bubble runs a test on an engine in memory, in virtual time, with the endpoints "ep" and "ep2".
func bubble(t *testing.T, test func(t *testing.T, d *deployment), configure ...func(*jobapi.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		clk := new(clock.Clock)
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
		e := must.Do(engine.Open(t.Context(), engine.Config{DB: db, Clock: clk, Logger: log}))(t)
		d := &deployment{t: t, engine: e, workersMax: 3}
		config := jobapi.Config{
			Engine: e, Clock: clk, Keys: apikey.New(key), Logger: log,
			Endpoint: func(_ context.Context, id string) (jobapi.Endpoint, error) {
				if id == "deleted" && d.deletedLookups > 0 {
					d.deletedLookups--
					return jobapi.Endpoint{WorkersMax: 1}, nil
				}
				if id != "ep" && id != "ep2" {
					return jobapi.Endpoint{}, jobapi.ErrNoEndpoint
				}
				return jobapi.Endpoint{WorkersMax: d.workersMax}, nil
			},
			Workers:  func(string) worker.Counts { return worker.Counts{Idle: 1} },
			OnQueued: func(string) { d.queuedCalls.Add(1) },
			Failure:  func(string) string { return "" },
			Webhook:  func(*url.URL) error { return nil },
			Limiter:  limits.New(clk), Bodies: httplimit.NewMemory(32 << 20), Answers: httplimit.NewMemory(32 << 20), // the smallest defaults
		}
		for _, set := range configure {
			set(&config)
		}
		transport, stop := pipenet.Serve(jobapi.New(config))
		d.client = &http.Client{Transport: transport}
		defer func() {
			stop()
			e.Close()
			must.Equal(t, db.Close(), nil)
			// The goroutine of a rejected, overlong body sleeps half a second.
			sleep(1)
		}()
		test(t, d)
	})
}

// sleep lets virtual seconds pass.
func sleep(seconds float64) { time.Sleep(time.Duration(seconds * float64(time.Second))) }

func after(seconds float64, f func()) { go func() { sleep(seconds); f() }() }

// answer is the answer to a request. raw is the text of its body.
type answer struct {
	status int
	header http.Header
	body   map[string]any
	raw    string
	closes bool // the connection
}

func (d *deployment) do(method, path, body string, header ...string) answer {
	d.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	return d.send(method, path, reader, header...)
}

func (d *deployment) send(method, path string, body io.Reader, header ...string) answer {
	d.t.Helper()
	resp := d.begin(d.t.Context(), method, path, body, header...)
	defer resp.Body.Close()
	raw := must.Do(io.ReadAll(resp.Body))(d.t)
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw), closes: resp.Close}
	must.Equal(d.t, json.Unmarshal(raw, &a.body), nil, method, path, "answered", a.status, "but not with a JSON object", string(raw))
	return a
}

// begin sends a request and returns when its response begins. header has names and values; "" removes a header.
func (d *deployment) begin(ctx context.Context, method, path string, body io.Reader, header ...string) *http.Response {
	d.t.Helper()
	req := must.Do(http.NewRequestWithContext(ctx, method, "http://deployment"+path, body))(d.t)
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	resp, err := d.client.Do(req)
	must.Succeed(d.t, err, method, path)
	return resp
}

// submit queues a job and returns its id.
func (d *deployment) submit(body string) string {
	d.t.Helper()
	a := d.do("POST", "/v2/ep/run", body)
	must.Require(d.t, a.status == 200 && a.body["status"] == "IN_QUEUE", "run answered", a.status, a.raw)
	return a.body["id"].(string)
}

// take takes the next job as a worker.
func (d *deployment) take(endpoint string) engine.Taken {
	d.t.Helper()
	return must.Do(d.engine.Take(d.t.Context(), engine.Take{Endpoint: endpoint, Worker: "w1", Max: 1}))(d.t)[0]
}

func (d *deployment) report(job engine.Taken, r engine.Report) {
	d.t.Helper()
	must.Equal(d.t, must.Do(d.engine.Report(d.t.Context(), job.Ref, r))(d.t), engine.Accepted, "the answer to the report")
}

func (d *deployment) status(id string) answer {
	d.t.Helper()
	return d.do("GET", "/v2/ep/status/"+id, "")
}

func now() time.Time { return time.Now() }

func since(t time.Time) float64 { return time.Since(t).Seconds() }
