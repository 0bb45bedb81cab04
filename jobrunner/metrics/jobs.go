package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// jobBuckets are seconds for which jobs wait and run: from a built-in handler to a week, the maximum
// for a job.
var jobBuckets = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}

// jobs counts the engine's events. A series lives as long as its endpoint.
type jobs struct {
	submitted, ended, retried *prometheus.CounterVec
	delay, execution          *prometheus.HistogramVec

	mu         sync.Mutex
	byEndpoint map[string]*series // by endpoint
}

// series are the metrics of an endpoint. They are cached because a lookup by labels costs more than
// counting.
type series struct {
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

func (m *Metrics) Job(e engine.Event) {
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
			submitted: j.submitted.WithLabelValues(endpoint), retried: j.retried.WithLabelValues(endpoint),
			ended: map[engine.State]prometheus.Counter{},
			delay: j.delay.WithLabelValues(endpoint), execution: j.execution.WithLabelValues(endpoint),
		}
		j.byEndpoint[endpoint] = s
	}
	return s
}

// keep drops the series of endpoints that no longer exist.
func (j *jobs) keep(existing map[string]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for endpoint := range j.byEndpoint {
		if existing[endpoint] {
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
