package jobrunner

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// route sends a request to the API that owns its path: below /v2, the first
// segment is a reserved word of the management API or the id of an endpoint.
// Below /live the job API alone is served, as the public SDKs read it. Workers
// speak below the id of their endpoint. All below the id of an endpoint behind a
// load balancer is its workers' own.
func route(management, jobs, workers, balancer http.Handler, balanced func(endpoint string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, isV2 := strings.CutPrefix(r.URL.Path, "/v2/")
		first, _, deeper := strings.Cut(rest, "/")
		if isV2 && !slices.Contains(store.Reserved, first) && balanced(first) {
			r.Pattern = "/v2/{endpoint_id}/{path...}" // for those who count requests
			balancer.ServeHTTP(w, r)
			return
		}
		if workerapi.Owns(r.URL.Path) && !slices.Contains(store.Reserved, first) {
			workers.ServeHTTP(w, r)
			return
		}
		if isV2 && deeper && !slices.Contains(store.Reserved, first) || strings.HasPrefix(r.URL.Path, "/live/") {
			jobs.ServeHTTP(w, r)
			return
		}
		management.ServeHTTP(w, r)
	})
}

// observe gives every request an id, counts it, writes a line about it, and
// turns a panic into an answer.
func observe(log *slog.Logger, m *metrics.Metrics, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, started := uuid.NewString(), time.Now()
		w.Header().Set("X-Request-Id", id)
		answer := &answer{ResponseWriter: w}
		end := m.Begin()
		defer func() {
			p := recover()
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares so: the wish to break the answer off
				defer panic(p)
			} else if p != nil {
				log.ErrorContext(r.Context(), "a handler panicked", "request", id, "panic", p, "stack", string(debug.Stack()))
				if answer.status == 0 {
					answer.Header().Set("Content-Type", "application/json")
					answer.WriteHeader(http.StatusInternalServerError)
					_, _ = answer.Write([]byte(`{"error":"the deployment failed to answer: its log says why","message":"the deployment failed to answer: its log says why"}`))
				}
			}
			end(r, answer.status)
			log.Log(r.Context(), importance(r.URL.Path, answer.status), r.Method+" "+r.URL.Path, "status", answer.status,
				"ms", time.Since(started).Milliseconds(), "request", id)
		}()
		next.ServeHTTP(answer, r)
	})
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
