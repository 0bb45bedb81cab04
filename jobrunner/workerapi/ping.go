package workerapi

import (
	"net/http"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// ping takes note of a sign of life, or of what a worker found wrong with
// itself.
func (a *api) ping(w http.ResponseWriter, r *http.Request, t target) (err error) {
	if t.query.Get("status") == "unhealthy" {
		err = a.Workers.Unhealthy(r.Context(), t.endpoint, t.worker, reason(t.query.Get("check"), t.query.Get("reason")))
	} else {
		err = a.Workers.Ping(r.Context(), t.endpoint, t.worker, jobs(t.query["job_id"]))
	}
	if release := t.query.Get("runpod_version"); err == nil && release != "" && len(release) <= maxRelease {
		a.Workers.SDK(t.endpoint, t.worker, release)
	}
	if err == nil {
		httpanswer.Bytes(w, http.StatusOK, []byte("{}"))
	}
	return err
}

// reason says for people what a check of the worker's own found.
func reason(check, reason string) string {
	text := "it says that it is not fit for work"
	if check != "" {
		text += ": its check " + check + " failed"
	}
	if reason != "" {
		text += ": " + reason
	}
	if len(text) > maxReason {
		text = text[:maxReason] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// jobs are the ids of a ping, in one parameter or several.
func jobs(sent []string) (ids []string) {
	for _, one := range sent {
		for id := range strings.SplitSeq(one, ",") {
			if id = strings.TrimSpace(id); id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
