// Package metrics exports a deployment's metrics to Prometheus.
//
// The number of series is bounded: labels are the deployment's routes, statuses, states, and the
// ids of existing endpoints, workers and GPUs. No label comes from a client, and deleting an endpoint
// deletes its series.
package metrics

import (
	"cmp"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

const namespace = "gpucloud"

type Config struct {
	Source  Source
	Clock   *clock.Clock
	Logger  *slog.Logger // for failed reads
	Version string       // of the jobrunner
}

// Metrics are the metrics of a deployment. They are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	requests *prometheus.HistogramVec // durations of requests
	open     prometheus.Gauge         // requests in flight
	jobs     *jobs
	webhooks *prometheus.CounterVec
}

func New(c Config) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		log:      c.Logger,
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "http_request_duration_seconds", Buckets: requestBuckets,
			Help: "How long requests took, by route and status. Some routes long-poll.",
		}, []string{"route", "code"}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "http_requests_open", Help: "Requests in flight.",
		}),
		jobs: newJobs(),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "webhook_calls_total", Help: "Webhook calls, by result.",
		}, []string{"result"}),
	}
	for _, result := range []string{delivered, retried, failed} {
		m.webhooks.WithLabelValues(result)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Version of the jobrunner; always 1.",
		ConstLabels: prometheus.Labels{"version": c.Version, "go": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build,
		m.requests, m.open, m.webhooks,
		&stateCollector{source: c.Source, clock: c.Clock, jobs: m.jobs},
	)
	return m
}

// Handler serves the metrics to Prometheus. A metric that can't be read is omitted and logged.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError})
}

const (
	delivered = "delivered"
	retried   = "retried"
	failed    = "failed"
)

// Webhook counts a webhook call. A failed call is retried unless it was the last attempt.
func (m *Metrics) Webhook(err error, last bool) {
	result := delivered
	switch {
	case err != nil && last:
		result = failed
	case err != nil:
		result = retried
	}
	m.webhooks.WithLabelValues(result).Inc()
}

// requestBuckets are durations of requests in seconds, from a read of memory to the API's longest wait for a job.
var requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30, 90, 300}

// noRoute is the label of requests whose path matches no route.
const noRoute = "none"

// Begin counts a request as open. The caller calls end when it is answered.
func (m *Metrics) Begin() (end func(r *http.Request, status int)) {
	start := time.Now()
	m.open.Inc()
	return func(r *http.Request, status int) {
		m.open.Dec()
		route := cmp.Or(r.Pattern, noRoute)                     // the router sets the pattern, not the client
		status = cmp.Or(status, http.StatusInternalServerError) // 0: aborted before its answer began
		m.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(time.Since(start).Seconds())
	}
}

// jobBuckets are the seconds that jobs wait or run, up to a job's maximum of a week.
var jobBuckets = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}

// jobs counts the engine's events. A series lives as long as its endpoint.
type jobs struct {
	submitted, ended, retried *prometheus.CounterVec
	delay, execution          *prometheus.HistogramVec

	mu         sync.Mutex
	byEndpoint map[string]*series
}

// series are the metrics of an endpoint, cached because a lookup by labels costs more than counting.
type series struct {
	createdAt          time.Time
	submitted, retried prometheus.Counter
	ended              map[engine.State]prometheus.Counter
	delay, execution   prometheus.Observer
}

func newJobs() *jobs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: jobBuckets}, []string{"endpoint"})
	}
	return &jobs{
		submitted:  counter("jobs_submitted_total", "Jobs accepted since the start.", "endpoint"),
		ended:      counter("jobs_ended_total", "Jobs that ended since the start, by final state.", "endpoint", "state"),
		retried:    counter("jobs_retried_total", "Jobs that were queued again since the start because their worker died.", "endpoint"),
		delay:      histogram("job_delay_seconds", "How long jobs waited in the queue before a worker took them."),
		execution:  histogram("job_execution_seconds", "Execution time of ended jobs."),
		byEndpoint: map[string]*series{},
	}
}

// Job counts an event of a job, unless the job is a request of a batch.
func (m *Metrics) Job(e engine.Event) {
	if engine.IsBatchQueue(e.Endpoint) {
		return
	}
	j := m.jobs
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.seriesFor(e.Endpoint)
	switch {
	case e.Retry:
		s.retried.Inc()
	case e.To == engine.InQueue && e.From == "":
		s.submitted.Inc()
	case e.To == engine.InProgress:
		s.delay.Observe(e.Delay.Seconds())
	case e.To.Terminal():
		if s.ended[e.To] == nil {
			s.ended[e.To] = j.ended.WithLabelValues(e.Endpoint, string(e.To))
		}
		s.ended[e.To].Inc()
		if e.Execution > 0 {
			s.execution.Observe(e.Execution.Seconds())
		}
	}
}

// seriesFor returns the series of an endpoint. It is called with j.mu held.
func (j *jobs) seriesFor(endpoint string) *series {
	s := j.byEndpoint[endpoint]
	if s == nil {
		s = &series{
			createdAt: time.Now(),
			submitted: j.submitted.WithLabelValues(endpoint), retried: j.retried.WithLabelValues(endpoint),
			ended: map[engine.State]prometheus.Counter{},
			delay: j.delay.WithLabelValues(endpoint), execution: j.execution.WithLabelValues(endpoint),
		}
		j.byEndpoint[endpoint] = s
	}
	return s
}

// keepOnly drops the series of endpoints that don't exist. It keeps series that are newer than the read of existing.
func (j *jobs) keepOnly(existing map[string]bool, readAt time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for endpoint, s := range j.byEndpoint {
		if existing[endpoint] || s.createdAt.After(readAt) {
			continue
		}
		delete(j.byEndpoint, endpoint)
		labels := prometheus.Labels{"endpoint": endpoint}
		for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{j.submitted, j.ended, j.retried, j.delay, j.execution} {
			vec.DeletePartialMatch(labels)
		}
	}
}

func (j *jobs) collectors() []prometheus.Collector {
	return []prometheus.Collector{j.submitted, j.ended, j.retried, j.delay, j.execution}
}
