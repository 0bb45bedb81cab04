package front

import (
	"bufio"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// Route passes a request to the API that owns its path. Below /v2, the first segment is a reserved word of
// the management API, or the id of an endpoint. Paths below the id belong to the job API or the worker
// protocol, or all of them to the workers of a load-balancing endpoint. Below /live there is only the job
// API, in the form that the public SDKs expect.
func Route(management, jobs, workers, balancer http.Handler, balanced func(endpoint string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint, below := EndpointOf(r.URL.Path)
		switch {
		case endpoint != "" && balanced(endpoint):
			r.Pattern = "/v2/{endpoint_id}/{path...}" // for the metrics
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

// EndpointOf returns the endpoint of a path, or "", and whether the path continues after the id.
func EndpointOf(path string) (id string, below bool) {
	path, isV2 := strings.CutPrefix(path, "/v2/")
	id, _, below = strings.Cut(path, "/")
	if !isV2 || slices.Contains(store.Reserved, id) {
		return "", false
	}
	return id, below
}

func FormOf(path string) httpanswer.Form {
	switch endpoint, _ := EndpointOf(path); {
	case strings.HasPrefix(path, "/v1/"):
		return httpanswer.MessageForm
	case strings.HasPrefix(path, "/v2/") && endpoint == "":
		return httpanswer.ProblemForm
	}
	return httpanswer.JobForm(path)
}

// Observe assigns an id to every request, counts and logs it, and turns a panic into an answer.
func Observe(log *slog.Logger, m *metrics.Metrics, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, started := httpanswer.SetRequestID(w.Header()), time.Now()
		a := new(answer)
		a.AnswerWriter = httplimit.AnswerWriter{ResponseWriter: w, Begin: func(status int) {
			a.status = status
			// The id of a worker or another node replaces this one. After a 1xx status, the balancer's proxy clears the headers.
			ids := append([]string{id}, w.Header()[httpanswer.RequestID]...)
			w.Header()[httpanswer.RequestID] = ids[len(ids)-1:]
		}}
		end := m.Begin()
		defer func() {
			p := recover()
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares like this; it means to abort the answer
				defer panic(p)
			} else if p != nil {
				log.ErrorContext(r.Context(), "a handler panicked", "request", id, "panic", p, "stack", string(debug.Stack()))
				if a.status != 0 {
					defer panic(http.ErrAbortHandler) // the client must not take the part for the whole answer
				} else {
					form := FormOf(r.URL.Path)
					form.WriteRefusal(a, form.Internal(w.Header()))
				}
			}
			stopped := a.status == http.StatusServiceUnavailable && !httplimit.ServerStops(r.Context()) // a forwarded request: see node.serveLocally
			if (a.status == 0 || stopped) && r.Context().Err() != nil {
				a.status = httpanswer.StatusClientGone
			}
			end(r, a.status)
			logRequest(log.Handler(), r, started, a.status, id)
		}()
		next.ServeHTTP(a, r)
	})
}

// logRequest logs a request without the source position, which would cost more than the rest.
func logRequest(log slog.Handler, r *http.Request, started time.Time, status int, id string) {
	level, now := logLevel(r.URL.Path, status), time.Now()
	if !log.Enabled(r.Context(), level) {
		return
	}
	line := slog.NewRecord(now, level, r.Method+" "+r.URL.Path, 0)
	line.AddAttrs(slog.Int("status", status), slog.Int64("ms", now.Sub(started).Milliseconds()), slog.String("request", id))
	_ = log.Handle(r.Context(), line) // slog.Logger ignores the error, too
}

type answer struct {
	httplimit.AnswerWriter
	status int
}

// Hijack gives the connection to a handler that switches protocols, as the balancer does for a WebSocket.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil && a.status == 0 {
		a.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// logLevel returns the log level of a request. It is debug for frequent requests: of the page, scrapers and
// probes, and successful ones of workers.
func logLevel(path string, status int) slog.Level {
	if path == "/metrics" || path == AliveRoute || path == readyRoute || page.Owns(path) || workerapi.IsFrequent(path) && status < http.StatusBadRequest {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
