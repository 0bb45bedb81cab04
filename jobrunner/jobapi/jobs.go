package jobapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// run queues a job and answers at once (description: POST /run).
func (a *api) run(w http.ResponseWriter, r *http.Request, t target) error {
	job, err := a.submit(w, r, t, maxRun, nil)
	if err != nil {
		return err
	}
	writeJob(w, job)
	return nil
}

// runSync queues a job and answers when it is over, or when the wait is: then
// with the job as it stands (description: POST /runsync; field notes: runsync,
// wait elapsed).
func (a *api) runSync(w http.ResponseWriter, r *http.Request, t target) error {
	asked, err := queryDuration(r, "wait", waitBounds, 0)
	if err != nil {
		return err
	}
	job, err := a.submit(w, r, t, maxRunSync, func(n *engine.NewJob) { n.Sync, n.Wait = true, asked })
	if err != nil {
		return err
	}
	t.job = job.ID
	return a.answerEnd(w, r, t, cmp.Or(asked, engine.DefaultWait))
}

func (a *api) submit(w http.ResponseWriter, r *http.Request, t target, limit int64, shape func(*engine.NewJob)) (engine.Job, error) {
	n, err := readSubmission(w, r, limit)
	if err != nil {
		return engine.Job{}, err
	}
	if err := a.checkWebhook(n.Webhook); err != nil {
		return engine.Job{}, err
	}
	n.Endpoint = t.endpoint
	if shape != nil {
		shape(&n)
	}
	return a.queue(r.Context(), n)
}

// queue makes a job and tells the pools.
func (a *api) queue(ctx context.Context, n engine.NewJob) (engine.Job, error) {
	job, err := a.Engine.Submit(ctx, n)
	if err != nil {
		return engine.Job{}, err
	}
	// An endpoint that was deleted meanwhile has dropped its jobs already, and
	// nobody would ever look for this one.
	if _, err := a.Endpoint(ctx, n.Endpoint); errors.Is(err, ErrNoEndpoint) {
		return engine.Job{}, errors.Join(err, a.Engine.DropEndpoint(ctx, n.Endpoint))
	}
	a.Queued(n.Endpoint)
	return job, nil
}

// status answers a job as it stands; ?ttl= sets its time to live, which counts
// from the submission (description: GET /status).
func (a *api) status(w http.ResponseWriter, r *http.Request, t target) error {
	if err := a.setTTL(r, t); err != nil {
		return err
	}
	job, err := a.Engine.Get(r.Context(), t.endpoint, t.job)
	if err != nil {
		return err
	}
	writeJob(w, job)
	return nil
}

// statusSync is status that waits for the job's end, at the live door alone
// (field notes: /status-sync).
func (a *api) statusSync(w http.ResponseWriter, r *http.Request, t target) error {
	wait, err := queryDuration(r, "wait", waitBounds, engine.DefaultWait)
	if err != nil {
		return err
	}
	return a.answerEnd(w, r, t, wait)
}

func (a *api) setTTL(r *http.Request, t target) error {
	ttl, err := queryDuration(r, "ttl", ttlBounds, 0)
	if err != nil || ttl == 0 {
		return err
	}
	return a.Engine.SetTTL(r.Context(), t.endpoint, t.job, ttl)
}

// cancel ends a job that waits or runs. One that is over stays as it is, and
// its status is the answer (field notes: cancel of a finished job).
func (a *api) cancel(w http.ResponseWriter, r *http.Request, t target) error {
	job, err := a.Engine.Cancel(r.Context(), t.endpoint, t.job)
	if err != nil {
		return err
	}
	writeJob(w, engine.Job{ID: job.ID, State: job.State})
	return nil
}

// health counts jobs and workers (description: Health response; field notes:
// health).
func (a *api) health(w http.ResponseWriter, _ *http.Request, t target) error {
	jobs := a.Engine.Counts(t.endpoint)
	body, err := json.Marshal(map[string]any{
		"jobs": map[string]int{
			"completed": jobs.Completed, "failed": jobs.Failed, "inProgress": jobs.InProgress, "inQueue": jobs.InQueue, "retried": jobs.Retried,
		},
		"workers": a.Workers(t.endpoint),
	})
	if err != nil {
		return err
	}
	write(w, body)
	return nil
}
