package front

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// Route sends a request to the API that owns its path: below /v2, the first
// segment is a reserved word of the management API or the id of an endpoint.
// Below /live the job API alone is served, as the public SDKs read it. Workers
// speak below the id of their endpoint. All below the id of an endpoint behind a
// load balancer is its workers' own.
func Route(management, jobs, workers, balancer http.Handler, balanced func(endpoint string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint, below := EndpointOf(r.URL.Path)
		switch {
		case endpoint != "" && balanced(endpoint):
			r.Pattern = "/v2/{endpoint_id}/{path...}" // for those who count requests
			balancer.ServeHTTP(w, r)
		case endpoint != "" && workerapi.Owns(r.URL.Path):
			workers.ServeHTTP(w, r)
		case below, strings.HasPrefix(r.URL.Path, "/live/"):
			jobs.ServeHTTP(w, r)
		default:
			management.ServeHTTP(w, r)
		}
	})
}

// EndpointOf is the endpoint whose path it is, "" for the other paths, and
// whether more follows the id.
func EndpointOf(path string) (id string, below bool) {
	path, isV2 := strings.CutPrefix(path, "/v2/")
	id, _, below = strings.Cut(path, "/")
	if !isV2 || slices.Contains(store.Reserved, id) {
		return "", false
	}
	return id, below
}

// FormOf is how the API that owns a path refuses a request.
func FormOf(path string) httpanswer.Form {
	switch endpoint, _ := EndpointOf(path); {
	case strings.HasPrefix(path, "/v1/"):
		return httpanswer.Message
	case strings.HasPrefix(path, "/v2/") && endpoint == "":
		return httpanswer.Problem
	}
	return httpanswer.Error
}

// Observe gives every request an id, counts it, writes a line about it, and
// turns a panic into an answer.
func Observe(log *slog.Logger, m *metrics.Metrics, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, started := httpanswer.SetRequestID(w.Header()), time.Now()
		answer := &answer{ResponseWriter: w}
		end := m.Begin()
		defer func() {
			p := recover()
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares so: the wish to break the answer off
				defer panic(p)
			} else if p != nil {
				log.ErrorContext(r.Context(), "a handler panicked", "request", id, "panic", p, "stack", string(debug.Stack()))
				if answer.status == 0 {
					form := FormOf(r.URL.Path)
					form.Refuse(answer, form.Internal(w.Header()))
				}
			}
			end(r, answer.status)
			logRequest(log.Handler(), r, started, answer.status, id)
		}()
		next.ServeHTTP(answer, r)
	})
}

// logRequest writes the line of a request, without the place in the source, which costs
// more than the rest.
func logRequest(log slog.Handler, r *http.Request, started time.Time, status int, id string) {
	level, now := importance(r.URL.Path, status), time.Now()
	if !log.Enabled(r.Context(), level) {
		return
	}
	line := slog.NewRecord(now, level, r.Method+" "+r.URL.Path, 0)
	line.AddAttrs(slog.Int("status", status), slog.Int64("ms", now.Sub(started).Milliseconds()), slog.String("request", id))
	_ = log.Handle(r.Context(), line) // as slog.Logger does
}

// answer remembers the status of an answer.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// importance is that of a request's line in the log. What asks every few seconds
// by itself is no news while it is answered well: the page, those who scrape
// metrics or probe, and workers that poll and ping.
func importance(path string, status int) slog.Level {
	switch {
	case path == "/metrics", path == AliveRoute, path == readyRoute, page.Owns(path), workerapi.Polls(path) && status < http.StatusBadRequest:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
