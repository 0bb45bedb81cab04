package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// requestBuckets are the seconds that requests take: from a read of memory to the longest wait for a
// job that the API allows.
var requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30, 90, 300}

// noRoute is the label of requests whose path matches no route.
const noRoute = "none"

type requests struct {
	duration *prometheus.HistogramVec
	open     prometheus.Gauge
}

func newRequests() *requests {
	return &requests{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "http_request_duration_seconds", Buckets: requestBuckets,
			Help: "How long requests took, by route and status. Some routes long-poll.",
		}, []string{"route", "code"}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "http_requests_open", Help: "Requests in flight.",
		}),
	}
}

// Begin counts a request as open. The caller calls end when it is answered.
func (m *Metrics) Begin() (end func(r *http.Request, status int)) {
	start := time.Now()
	m.requests.open.Inc()
	return func(r *http.Request, status int) {
		m.requests.open.Dec()
		route := noRoute
		if r.Pattern != "" { // set by the router, not by the client
			route = r.Pattern
		}
		if status == 0 { // aborted before its answer began
			status = http.StatusInternalServerError
		}
		m.requests.duration.WithLabelValues(route, strconv.Itoa(status)).Observe(time.Since(start).Seconds())
	}
}
