package front

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// AliveRoute is that of a probe, without a key, for those who restart jobrunners.
const AliveRoute = "/healthz"

// readyRoute is that for those who choose among them.
const readyRoute = "/readyz"

// readyTimeout is shorter than what probes wait by default.
const readyTimeout = 900 * time.Millisecond

// alive answers while the process serves requests. It does not depend on the database,
// which no restart mends.
func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok\n")
}

// ready answers whether requests can be served that need the database.
func ready(unready func(context.Context) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if reason := unready(ctx); reason != "" {
			w.Header().Set("Retry-After", "1")
			httpanswer.Error.Refuse(w, httpanswer.Refuse(http.StatusServiceUnavailable, "%s", reason))
			return
		}
		alive(w, r)
	}
}
