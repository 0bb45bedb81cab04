package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Seconds that requests take: from a read of memory to the longest wait for a
// job that the API allows.
var requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30, 90, 300}

// noRoute is the label of everything that is nobody's path.
const noRoute = "none"

type requests struct {
	took *prometheus.HistogramVec
	open prometheus.Gauge
}

func newRequests() *requests {
	return &requests{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "http_request_duration_seconds", Buckets: requestBuckets,
			Help: "How long requests took, by route and status. Some routes hold a request until there is news.",
		}, []string{"route", "code"}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "http_requests_open", Help: "Requests that are being answered.",
		}),
	}
}

// Begin counts a request in; the caller calls end when it is answered.
func (m *Metrics) Begin() (end func(r *http.Request, status int)) {
	started := time.Now()
	m.requests.open.Inc()
	return func(r *http.Request, status int) {
		m.requests.open.Dec()
		route := noRoute
		if r.Pattern != "" { // set by whoever knew the path: a template, and none of the client's words
			route = r.Pattern
		}
		if status == 0 { // broken off before it began
			status = http.StatusInternalServerError
		}
		m.requests.took.WithLabelValues(route, strconv.Itoa(status)).Observe(time.Since(started).Seconds())
	}
}
