package jobrunner

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
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
func (j *Jobrunner) ready(w http.ResponseWriter, r *http.Request) {
	if reason := j.unready(r.Context()); reason != "" {
		w.Header().Set("Retry-After", "1")
		httpanswer.Error.Refuse(w, httpanswer.Refuse(http.StatusServiceUnavailable, "%s", reason))
		return
	}
	alive(w, r)
}

// unready is why requests should go elsewhere; "" where they may come.
func (j *Jobrunner) unready(ctx context.Context) string {
	if j.draining.Load() {
		return "the jobrunner is stopping"
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		answer <- j.db.Read(ctx, func(r *sqldb.Reader) error {
			var one int
			return r.QueryRow("SELECT 1").Scan(&one)
		})
	}()
	select {
	case err := <-answer:
		if err == nil {
			return ""
		}
	case <-ctx.Done():
	}
	return "the database does not answer" // its own words may name its server
}
