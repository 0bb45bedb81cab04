package jobrunner

import (
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// front serves what is for those who operate the deployment, and leaves the
// rest to the APIs: the page at / and below /ui/, /metrics, /healthz and /readyz, and
// with Profile /debug/pprof/. On a loopback address metrics and profiles are open to this
// machine, for they hold nothing secret, and the programs that read them send
// no key without being told.
func (j *Jobrunner) front(c Config, keys *apikey.Keys, next http.Handler) http.Handler {
	shown := page.Local(c.Remote, j.forwardPage(j.page.Load()))
	metrics := j.metrics.Handler()
	if c.Remote {
		metrics = withKey(keys, "the metrics are of all", metrics.ServeHTTP)
	}
	metrics = page.Local(c.Remote, withPattern("GET /metrics", readOnly(metrics)))
	probes := map[string]http.Handler{}
	for path, probe := range map[string]http.HandlerFunc{AliveRoute: alive, readyRoute: j.ready} {
		probes[path] = withPattern("GET "+path, readOnly(probe)) // under any host name: a proxy's, too
	}
	profiles := page.Local(false, withPattern("GET /debug/pprof/{profile}", profiles()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case page.Owns(r.URL.Path):
			shown.ServeHTTP(w, r)
		case r.URL.Path == "/metrics":
			metrics.ServeHTTP(w, r)
		case probes[r.URL.Path] != nil:
			probes[r.URL.Path].ServeHTTP(w, r)
		case c.Profile && strings.HasPrefix(r.URL.Path, "/debug/pprof/"):
			profiles.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// withPattern says by what template a request is counted.
func withPattern(pattern string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		r.Pattern = pattern
	})
}

// readOnly serves GET and HEAD alone.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			httpanswer.Error.Refuse(w, httpanswer.NotAllowed(r, http.MethodGet, http.MethodHead))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withKey asks for a key that may read at the management API or, for what changes
// something, do everything there.
func withKey(keys *apikey.Keys, why string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := keys.Authorize(r)
		switch {
		case err != nil:
			httpanswer.Error.Refuse(w, httpanswer.Refuse(http.StatusUnauthorized, "%s", err))
		case !who.MayRead() || r.Method != http.MethodGet && r.Method != http.MethodHead && !who.MayManage():
			httpanswer.Error.Refuse(w, httpanswer.Refuse(http.StatusForbidden, "this API key's scope at the management API is %s, which is too little: %s", who.Management, why))
		default:
			next(w, r)
		}
	}
}

// profiles are those of net/http/pprof, but for the command line, which may
// have a database's password in it.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", http.NotFound)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
