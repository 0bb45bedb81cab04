// Package front is the entry of a deployment's HTTP requests. It finds the API that owns a path,
// counts and logs requests, and serves the page, the probes, the metrics and the clock.
package front

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

type Config struct {
	APIs          http.Handler
	Page          http.Handler
	Metrics       *metrics.Metrics
	Keys          *apikey.Keys
	UnreadyReason func(ctx context.Context) string // returns why requests should go elsewhere, or ""
	Remote        bool                             // other machines can reach the deployment
	Profile       bool                             // serve /debug/pprof/
	Logger        *slog.Logger
}

// New serves the page at / and below /ui/, /metrics, /healthz and /readyz, /debug/pprof/ with Profile,
// and the APIs at all other paths. On a loopback address, metrics and profiles need no key: they
// contain no secret, and the programs that read them send no key by default.
func New(c Config) http.Handler {
	ui := page.RejectOtherHosts(c.Remote, c.Page)
	metricsHandler := c.Metrics.Handler()
	if c.Remote {
		metricsHandler = withKey(c.Keys, "the metrics show all users", metricsHandler.ServeHTTP)
	}
	metricsHandler = page.RejectOtherHosts(c.Remote, withPattern("GET /metrics", readOnly(metricsHandler)))
	probes := map[string]http.Handler{}
	for path, probe := range map[string]http.HandlerFunc{AliveRoute: alive, readyRoute: ready(c.UnreadyReason)} {
		probes[path] = withPattern("GET "+path, readOnly(probe)) // under any host name, such as a proxy's
	}
	profiles := page.RejectOtherHosts(false, withPattern("GET /debug/pprof/{profile}", profiles()))
	return Observe(c.Logger, c.Metrics, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case page.Owns(r.URL.Path):
			ui.ServeHTTP(w, r)
		case r.URL.Path == "/metrics":
			metricsHandler.ServeHTTP(w, r)
		case probes[r.URL.Path] != nil:
			probes[r.URL.Path].ServeHTTP(w, r)
		case c.Profile && strings.HasPrefix(r.URL.Path, "/debug/pprof/"):
			profiles.ServeHTTP(w, r)
		default:
			c.APIs.ServeHTTP(w, r)
		}
	}))
}

// withPattern sets the pattern under which the metrics count a request. It replaces the pattern of a mux in next.
func withPattern(pattern string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		r.Pattern = pattern
	})
}

func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			httpanswer.ErrorForm.WriteRefusal(w, httpanswer.NotAllowed(r, http.MethodGet, http.MethodHead))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withKey requires a key that may read from the management API or, for changes, a key for all of it.
func withKey(keys *apikey.Keys, reason string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, err := keys.Authorize(r)
		switch {
		case err != nil:
			httpanswer.ErrorForm.WriteRefusal(w, httpanswer.Refuse(http.StatusUnauthorized, "%s", err))
		case !caller.MayRead() || r.Method != http.MethodGet && r.Method != http.MethodHead && !caller.MayManage():
			httpanswer.ErrorForm.WriteRefusal(w, httpanswer.Refuse(http.StatusForbidden, "this API key's scope for the management API is %s, which isn't enough: %s", caller.Management, reason))
		default:
			next(w, r)
		}
	}
}

// profiles serves net/http/pprof without the command line, which may contain a database's password.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", http.NotFound)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// AliveRoute is the path of the liveness probe. It needs no key.
const AliveRoute = "/healthz"

const readyRoute = "/readyz"

// readyTimeout is shorter than the default time-out of probes.
const readyTimeout = 900 * time.Millisecond

// alive doesn't depend on the database, because a restart of the process wouldn't help.
func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok\n")
}

// ready answers whether requests that need the database can be served.
func ready(unreadyReason func(context.Context) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if reason := unreadyReason(ctx); reason != "" {
			w.Header().Set("Retry-After", "1")
			httpanswer.ErrorForm.WriteRefusal(w, httpanswer.Refuse(http.StatusServiceUnavailable, "%s", reason))
			return
		}
		alive(w, r)
	}
}

// maxAdvance is the longest advance of the clock, slightly more than a job's longest time to live.
const maxAdvance = 8 * 24 * time.Hour

// Clock serves the deployment's clock. GET /clock reads it, with a key that may read from the management API.
// With a key for all of that API, POST /clock {"advance": milliseconds} advances the clock, and POST /clock
// {"stop": true} stops it between advances. findOffClock returns an endpoint whose worker runs a job in real
// time, or "". The clock can't be advanced during that job, because the job would time out early. afterAdvance
// is called after each advance.
func Clock(c *clock.Clock, keys *apikey.Keys, findOffClock func() string, afterAdvance func(ctx context.Context), next http.Handler) http.Handler {
	changeClock := func(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
		var body struct {
			Advance int64 `json:"advance"`
			Stop    bool  `json:"stop"`
		}
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&body)
		if body.Stop && body.Advance == 0 && err == nil {
			c.Stop()
			return nil
		}
		if err != nil || body.Stop || body.Advance < 1 || body.Advance > maxAdvance.Milliseconds() {
			return httpanswer.Refuse(http.StatusBadRequest, "send {\"advance\": milliseconds}, from 1 to %d, or {\"stop\": true}", maxAdvance.Milliseconds())
		}
		if endpoint := findOffClock(); endpoint != "" {
			return httpanswer.Refuse(http.StatusConflict, "a worker of endpoint %s runs a job in real time: advance the clock when the job has ended", endpoint)
		}
		c.Advance(time.Duration(body.Advance) * time.Millisecond)
		afterAdvance(r.Context())
		return nil
	}
	clockHandler := withKey(keys, "all users share the clock", func(w http.ResponseWriter, r *http.Request) {
		var refusal *httpanswer.Refusal
		switch r.Method {
		case http.MethodGet:
		case http.MethodPost:
			refusal = changeClock(w, r)
		default:
			refusal = httpanswer.NotAllowed(r, http.MethodGet, http.MethodPost)
		}
		if refusal != nil {
			httpanswer.ErrorForm.WriteRefusal(w, refusal)
			return
		}
		httpanswer.JSON(w, http.StatusOK, map[string]string{"now": c.Now().UTC().Format(time.RFC3339Nano)})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/clock" {
			clockHandler(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
