package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

type source struct {
	endpoints []metrics.Endpoint
	gpus      []gpu.DeviceState
	err       error
	onRead    func()
}

func (s *source) EndpointLoads(context.Context) ([]metrics.Endpoint, error) {
	if s.onRead != nil {
		s.onRead()
	}
	return s.endpoints, s.err
}
func (s *source) Devices() []gpu.DeviceState { return s.gpus }

func fullSource() *source {
	return &source{
		endpoints: []metrics.Endpoint{{
			ID: "ep", Jobs: engine.Counts{InQueue: 3, InProgress: 2}, Oldest: time.Now().Add(-time.Hour),
			WorkersByState: map[string]int{"RUNNING": 2, "THROTTLED": 0}, Workers: []worker.Info{{ID: "w1", Usage: run.Usage{CPU: 1500 * time.Millisecond, Memory: 1 << 20}}, {ID: "builtin"}},
		}},
		gpus: []gpu.DeviceState{
			{Device: gpu.Device{UUID: "GPU-1", TypeID: "NVIDIA H200", Memory: 1 << 30}, Sample: gpu.Sample{Utilization: 50, MemoryUsed: 1 << 20, Power: 70500, Temperature: 40}, Owner: "w1"},
			{Device: gpu.Device{UUID: "GPU-2", Index: 1, TypeID: "bad\xff", Fault: "XID 79"}, Sample: gpu.UnknownSample},
		},
	}
}

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	resp := must.Do(http.Get(server.URL))(t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.Require(t, err == nil && resp.StatusCode == http.StatusOK, resp.StatusCode, err, string(text))
	return string(text)
}

func newMetrics(s metrics.Source, log io.Writer) *metrics.Metrics {
	return metrics.New(metrics.Config{Source: s, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(log, nil)), Version: "1.2.3"})
}

func countRequest(m *metrics.Metrics, pattern string, status int) {
	m.Begin()(&http.Request{Method: "MADE-UP", RequestURI: "/made/up", Pattern: pattern}, status)
}

// Every metric has its value, and promlint accepts all metrics.
func TestScrape(t *testing.T) {
	m := newMetrics(fullSource(), t.Output())
	for _, e := range []engine.Event{
		{To: engine.InQueue},
		{From: engine.InQueue, To: engine.InProgress, Delay: 2 * time.Second},
		{From: engine.InProgress, To: engine.InQueue, Retry: true},
		{From: engine.InProgress, To: engine.Failed, Execution: 20 * time.Second},
		{From: engine.InQueue, To: engine.Cancelled},
		{From: engine.Failed, To: engine.InQueue}, // a client's retry
		{From: engine.Completed},                  // its retention has expired
	} {
		e.Endpoint = "ep"
		m.Job(e)
	}
	m.Webhook(nil, false)
	m.Webhook(errors.New("x"), false)
	m.Webhook(errors.New("x"), true)
	countRequest(m, "GET /v2/templates/{id}", 404)
	countRequest(m, "", 401)
	countRequest(m, "", 0)
	text := scrape(t, m)
	must.Contain(t, text,
		`gpucloud_build_info{go="go`,
		`version="1.2.3"} 1`,
		`gpucloud_jobs{endpoint="ep",state="IN_QUEUE"} 3`,
		`gpucloud_jobs{endpoint="ep",state="IN_PROGRESS"} 2`,
		`gpucloud_queue_oldest_age_seconds{endpoint="ep"} 3600.`,
		`gpucloud_jobs_submitted_total{endpoint="ep"} 1`,
		`gpucloud_jobs_ended_total{endpoint="ep",state="FAILED"} 1`,
		`gpucloud_jobs_ended_total{endpoint="ep",state="CANCELLED"} 1`,
		`gpucloud_jobs_retried_total{endpoint="ep"} 1`,
		`gpucloud_job_delay_seconds_sum{endpoint="ep"} 2`,
		`gpucloud_job_execution_seconds_bucket{endpoint="ep",le="30"} 1`,
		`gpucloud_job_execution_seconds_count{endpoint="ep"} 1`,
		`gpucloud_workers{endpoint="ep",state="RUNNING"} 2`,
		`gpucloud_workers{endpoint="ep",state="THROTTLED"} 0`,
		`gpucloud_worker_cpu_seconds_total{endpoint="ep",worker="w1"} 1.5`,
		`gpucloud_worker_memory_bytes{endpoint="ep",worker="w1"} 1.048576e+06`,
		`gpucloud_gpu_info{gpu="GPU-1",index="0",mig="",type="NVIDIA H200"} 1`,
		`gpucloud_gpu_utilization_ratio{gpu="GPU-1"} 0.5`,
		`gpucloud_gpu_memory_used_bytes{gpu="GPU-1"} 1.048576e+06`,
		`gpucloud_gpu_power_watts{gpu="GPU-1"} 70.5`,
		`gpucloud_gpu_temperature_celsius{gpu="GPU-1"} 40`,
		`gpucloud_gpu_held{gpu="GPU-1"} 1`,
		`gpucloud_gpu_healthy{gpu="GPU-1"} 1`,
		`gpucloud_gpu_healthy{gpu="GPU-2"} 0`,
		`gpucloud_gpu_info{gpu="GPU-2",index="1",mig="",type="bad?"} 1`,
		`gpucloud_webhook_calls_total{result="delivered"} 1`,
		`gpucloud_webhook_calls_total{result="retried"} 1`,
		`gpucloud_webhook_calls_total{result="failed"} 1`,
		`gpucloud_http_request_duration_seconds_count{code="404",route="GET /v2/templates/{id}"} 1`,
		`gpucloud_http_request_duration_seconds_count{code="401",route="none"} 1`,
		`gpucloud_http_request_duration_seconds_count{code="500",route="none"} 1`,
		"gpucloud_http_requests_open 0",
		"go_goroutines ",
	)
	for _, unwanted := range []string{"made", "MADE", `gpu_utilization_ratio{gpu="GPU-2"}`} {
		must.Hold(t, !strings.Contains(text, unwanted), "the metrics contain", unwanted, text)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	must.Succeed(t, err)
}

func TestDeletedEndpointDropsSeries(t *testing.T) {
	s := &source{}
	m := newMetrics(s, t.Output())
	for i := range 100 {
		id := fmt.Sprint("ep", i)
		s.endpoints = append(s.endpoints, metrics.Endpoint{ID: id})
		m.Job(engine.Event{Endpoint: id, To: engine.InQueue})
		m.Job(engine.Event{Endpoint: id, To: engine.InProgress, Delay: time.Second})
		m.Job(engine.Event{Endpoint: id, To: engine.Completed, Execution: time.Second})
	}
	before := scrape(t, m)
	s.endpoints = s.endpoints[:1]
	scrape(t, m) // reads the endpoints
	after := scrape(t, m)
	must.Hold(t, strings.Contains(before, `"ep99"`) && !strings.Contains(after, `"ep99"`) &&
		strings.Contains(after, `job_delay_seconds_count{endpoint="ep0"} 1`), "before:", before, "after:", after)
	m.Job(engine.Event{Endpoint: "ep99", To: engine.Completed, Execution: time.Second}) // its last job ends late
	must.Hold(t, !strings.Contains(scrape(t, m), `"ep99"`), "a late job recreates the series of a deleted endpoint")
	s.onRead = func() { m.Job(engine.Event{Endpoint: "new", To: engine.InQueue}) }
	must.Contain(t, scrape(t, m), `jobs_submitted_total{endpoint="new"} 1`)
}

// A metric that can't be read is omitted and logged; the others are served.
func TestUnreadableMetricIsOmitted(t *testing.T) {
	var log bytes.Buffer
	s := fullSource()
	s.err = errors.New("planted")
	text := scrape(t, newMetrics(s, &log))
	must.Hold(t, !strings.Contains(text, `endpoint="ep"`) && strings.Contains(text, "gpucloud_gpu_healthy") && strings.Contains(log.String(), "planted"),
		"the metrics are", text, "and the log is", &log)
	s.err = sqldb.ErrUnavailable // the counters in memory are still right, and have no series for batches
	m := newMetrics(s, &log)
	m.Job(engine.Event{Endpoint: "ep", To: engine.InQueue})
	m.Job(engine.Event{Endpoint: engine.BatchQueue("ep"), To: engine.InQueue})
	text = scrape(t, m)
	must.Hold(t, strings.Contains(text, `jobs_submitted_total{endpoint="ep"} 1`) && !strings.Contains(text, "ep-batch"), "the metrics during an outage are", text)
}
