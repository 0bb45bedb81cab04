package workerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// take answers one job as an object, or 204.
func (a *api) take(w http.ResponseWriter, r *http.Request, t target) error {
	jobs, err := a.waitForJobs(r, t, 1)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	httpanswer.Bytes(w, http.StatusOK, appendJob(nil, jobs[0]))
	return nil
}

// takeBatch answers an array of at most batch_size jobs, or 204. An invalid size counts as 1: a worker
// would treat an error as an empty queue, and poll again at once.
func (a *api) takeBatch(w http.ResponseWriter, r *http.Request, t target) error {
	size, err := strconv.Atoi(t.query.Get("batch_size"))
	if err != nil {
		size = 1
	}
	jobs, err := a.waitForJobs(r, t, min(max(size, 1), maxBatch))
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	body := []byte{'['}
	for i, job := range jobs {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendJob(body, job)
	}
	httpanswer.Bytes(w, http.StatusOK, append(body, ']'))
	return nil
}

// waitForJobs holds a poll for jobs. Jobs that were taken for a worker that has
// disconnected meanwhile are reported as lost, and go to another worker.
func (a *api) waitForJobs(r *http.Request, t target, limit int) ([]engine.Taken, error) {
	if t.query.Get("job_in_progress") == "0" {
		if err := a.Workers.Idle(r.Context(), t.endpoint, t.worker); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), pollTimeout)
	defer cancel()
	jobs, err := a.Workers.Take(ctx, t.endpoint, t.worker, limit)
	if err != nil || r.Context().Err() == nil {
		return jobs, err
	}
	for _, job := range jobs {
		err = errors.Join(err, a.Workers.Report(context.WithoutCancel(ctx), t.endpoint, t.worker, job.ID, engine.Lost(), false))
	}
	return nil, err
}

// appendJob appends a job in the form of the protocol: id, input, and the other
// members of the submission, as the bytes that were submitted. The public SDK
// drops a job without input.
func appendJob(b []byte, job engine.Taken) []byte {
	id, _ := json.Marshal(job.ID) // never fails for a string
	b = append(append(b, `{"id":`...), id...)
	input := job.Input
	if len(bytes.TrimSpace(input)) == 0 {
		input = []byte("{}")
	}
	b = append(append(b, `,"input":`...), input...)
	members := bytes.TrimSpace(job.Rest)
	if len(members) > len("{}") && members[0] == '{' {
		b = append(append(b, ','), members[1:len(members)-1]...)
	}
	return append(b, '}')
}

// stops answers the jobs that the worker should stop, or 204.
func (a *api) stops(w http.ResponseWriter, r *http.Request, t target) error {
	ctx, cancel := context.WithTimeout(r.Context(), pollTimeout)
	defer cancel()
	ids, err := a.Workers.Stops(ctx, t.endpoint, t.worker)
	switch {
	case err != nil:
		return err
	case len(ids) == 0:
		w.WriteHeader(http.StatusNoContent)
	default:
		body, _ := json.Marshal(map[string][]string{"jobsToStop": ids}) // never fails for strings
		httpanswer.Bytes(w, http.StatusOK, body)
	}
	return nil
}
