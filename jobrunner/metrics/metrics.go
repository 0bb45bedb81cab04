// Package metrics tells Prometheus how a deployment does.
//
// The number of series is bounded by what the deployment itself made: labels
// are routes of its own, statuses, states, and the ids of the endpoints,
// workers and GPUs that there are now. Nothing that a client sends becomes one,
// and what is deleted takes its series along.
package metrics

import (
	"log/slog"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

const namespace = "gpucloud"

// Config is what the metrics stand on.
type Config struct {
	Source  Source
	Clock   *clock.Clock
	Logger  *slog.Logger // of reads that fail
	Version string       // of the program
}

// Metrics are a deployment's. Its methods may be called from many goroutines.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	requests *requests
	jobs     *jobs
	webhooks *prometheus.CounterVec
}

// New counts from zero.
func New(c Config) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		log:      c.Logger,
		requests: newRequests(),
		jobs:     newJobs(),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "webhook_calls_total", Help: "Calls of webhooks, by how they went.",
		}, []string{"result"}),
	}
	for _, result := range []string{delivered, again, failed} {
		m.webhooks.WithLabelValues(result)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Which build of the jobrunner this is; always 1.",
		ConstLabels: prometheus.Labels{"version": c.Version, "go": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build,
		m.requests.took, m.requests.open, m.webhooks,
		&now{source: c.Source, clock: c.Clock, jobs: m.jobs},
	)
	return m
}

// Handler serves the metrics in the formats that Prometheus reads. What can't
// be read is left out and logged.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: failures{m.log}, ErrorHandling: promhttp.ContinueOnError})
}

type failures struct{ log *slog.Logger }

func (f failures) Println(v ...any) { f.log.Error("metrics could not be read", "error", v) }

// The results of calls of webhooks.
const (
	delivered = "delivered"
	again     = "retried"
	failed    = "failed"
)

// Webhook counts a call of a webhook. One that failed is made again or was the
// last.
func (m *Metrics) Webhook(err error, last bool) {
	result := delivered
	switch {
	case err != nil && last:
		result = failed
	case err != nil:
		result = again
	}
	m.webhooks.WithLabelValues(result).Inc()
}
