package jobapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// retry queues a job that failed or timed out again (description: POST /retry; B, rule 2).
func (a *api) retry(w http.ResponseWriter, r *http.Request, t target) error {
	job, err := a.Engine.Retry(r.Context(), t.endpoint, t.job)
	if refused, ok := errors.AsType[*engine.NotRetryable](err); ok {
		return httpanswer.Refuse(http.StatusBadRequest, "%s", refused)
	}
	if err != nil {
		return err
	}
	a.Queued(t.endpoint)
	writeJob(w, job)
	return nil
}

// purgeQueue removes the waiting jobs (description: POST /purge-queue; B, rule 3).
func (a *api) purgeQueue(w http.ResponseWriter, r *http.Request, t target) error {
	removed, err := a.Engine.Purge(r.Context(), t.endpoint)
	if err != nil {
		return err
	}
	write(w, append(strconv.AppendInt([]byte(`{"removed":`), int64(removed), 10), `,"status":"completed"}`...))
	return nil
}

// requests lists the endpoint's newest jobs (field notes: GET /requests).
func (a *api) requests(w http.ResponseWriter, r *http.Request, t target) error {
	jobs, err := a.Engine.Recent(r.Context(), t.endpoint)
	if err != nil {
		return err
	}
	b := appendList([]byte(`{"requests":`), jobs, func(b []byte, job engine.Job) []byte { return job.AppendJSON(b) })
	write(w, append(b, '}'))
	return nil
}
