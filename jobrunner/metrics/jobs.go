package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// Seconds that jobs wait and run: from a builtin handler to the week that a job
// may take at most.
var jobBuckets = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}

// jobs are counted from what the engine tells. A series lives as long as its
// endpoint.
type jobs struct {
	submitted, ended, retried *prometheus.CounterVec
	delay, execution          *prometheus.HistogramVec

	mu   sync.Mutex
	seen map[string]*series // by endpoint
}

// series are an endpoint's: to look them up by their labels costs more than to
// count.
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
		submitted: counter("jobs_submitted_total", "Jobs that were accepted since the start.", "endpoint"),
		ended:     counter("jobs_ended_total", "Jobs that ended since the start, by the state in which they did.", "endpoint", "state"),
		retried:   counter("jobs_retried_total", "Jobs that were queued again since the start because their worker died.", "endpoint"),
		delay:     histogram("job_delay_seconds", "How long jobs waited in the queue before a worker took them."),
		execution: histogram("job_execution_seconds", "How long jobs ran that are over."),
		seen:      map[string]*series{},
	}
}

// Job counts what happened to a job.
func (m *Metrics) Job(e engine.Event) { m.jobs.count(e) }

func (j *jobs) count(e engine.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.of(e.Endpoint)
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

// of are the series of an endpoint. The lock is held.
func (j *jobs) of(endpoint string) *series {
	s := j.seen[endpoint]
	if s == nil {
		s = &series{
			submitted: j.submitted.WithLabelValues(endpoint), retried: j.retried.WithLabelValues(endpoint),
			ended: map[engine.State]prometheus.Counter{},
			delay: j.delay.WithLabelValues(endpoint), execution: j.execution.WithLabelValues(endpoint),
		}
		j.seen[endpoint] = s
	}
	return s
}

// only drops the series of endpoints that are not there any more.
func (j *jobs) only(there map[string]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for endpoint := range j.seen {
		if there[endpoint] {
			continue
		}
		delete(j.seen, endpoint)
		gone := prometheus.Labels{"endpoint": endpoint}
		for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{j.submitted, j.ended, j.retried, j.delay, j.execution} {
			vec.DeletePartialMatch(gone)
		}
	}
}

func (j *jobs) collectors() []prometheus.Collector {
	return []prometheus.Collector{j.submitted, j.ended, j.retried, j.delay, j.execution}
}
