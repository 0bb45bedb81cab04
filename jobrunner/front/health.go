package front

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// AliveRoute is the path of the liveness probe. It needs no key.
const AliveRoute = "/healthz"

// readyRoute is the path of the readiness probe.
const readyRoute = "/readyz"

// readyTimeout is shorter than the default time-out of probes.
const readyTimeout = 900 * time.Millisecond

// alive answers as long as the process serves requests. It doesn't depend on the database, because a
// restart wouldn't help.
func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok\n")
}

// ready answers whether requests that need the database can be served.
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
