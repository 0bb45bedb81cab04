package workerapi

import (
	"net/http"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// ping records a heartbeat, or a worker's report that it is unhealthy.
func (a *api) ping(w http.ResponseWriter, r *http.Request, t target) (err error) {
	if t.query.Get("status") == "unhealthy" {
		err = a.Workers.Unhealthy(r.Context(), t.endpoint, t.worker, unhealthyReason(t.query.Get("check"), t.query.Get("reason")))
	} else {
		err = a.Workers.Ping(r.Context(), t.endpoint, t.worker, jobIDs(t.query["job_id"]))
	}
	if release := t.query.Get("runpod_version"); err == nil && release != "" && len(release) <= maxRelease {
		a.Workers.SDK(t.endpoint, t.worker, release)
	}
	if err == nil {
		httpanswer.Bytes(w, http.StatusOK, []byte("{}"))
	}
	return err
}

// unhealthyReason describes the failed check of a worker for people.
func unhealthyReason(check, unhealthyReason string) string {
	text := "the worker reports itself unhealthy"
	if check != "" {
		text += ": its check " + check + " failed"
	}
	if unhealthyReason != "" {
		text += ": " + unhealthyReason
	}
	if len(text) > maxReason {
		text = text[:maxReason] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// jobIDs lists the job ids of a ping, from one parameter or several.
func jobIDs(params []string) (ids []string) {
	for _, param := range params {
		for id := range strings.SplitSeq(param, ",") {
			if id = strings.TrimSpace(id); id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
