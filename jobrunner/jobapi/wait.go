package jobapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

const (
	// retryPause is the pause before another try if the database is unavailable, in real time.
	retryPause = 250 * time.Millisecond
	// recheckPause is the longest pause between two checks: another process that has become the leader doesn't wake
	// this process's watches.
	recheckPause = 5 * time.Second
)

// waitUntil calls check now, when a watch is woken and every recheckPause, until check returns true or an error, the wait
// is over, or the deployment stops. It then stops the watch. If the client disconnects, it returns the error of ctx. During an outage
// of the database it retries, and returns the error only when the wait is over.
func (a *api) waitUntil(ctx context.Context, watch *engine.Watch, wait time.Duration, check func() (done bool, err error)) error {
	defer watch.Stop()
	waitTimer := a.Clock.NewTimer(wait)
	defer waitTimer.Stop()
	for expired := false; ; {
		done, err := check()
		if err != nil && !sqldb.Temporary(err) || err == nil && done || expired {
			return err
		}
		pause := recheckPause
		if err != nil {
			pause = retryPause
		}
		select {
		case <-watch.C:
		case <-time.After(pause):
		case <-waitTimer.C:
			expired = true
		case <-ctx.Done():
			if httplimit.ServerStops(ctx) {
				_, err = check() // once more, before the answer
				return err
			}
			return ctx.Err()
		}
	}
}

// answerWhenEnded responds with a job once it has ended or the wait is over, and stops the watch. submitted is the job if
// this request submitted it, otherwise empty. If this process records the result, the watch delivers it without a
// read. If the database becomes unavailable, the response shows the job's last known state. If memory for the output
// of a submitted job isn't available, the response shows the job as IN_PROGRESS: an error wouldn't contain the job's
// id, so the client couldn't fetch the result later. A client that disconnects doesn't affect the job.
func (a *api) answerWhenEnded(w http.ResponseWriter, r *http.Request, t target, wait time.Duration, submitted engine.Job, watch *engine.Watch) error {
	job, isCurrent := submitted, submitted.ID != ""
	err := a.waitUntil(r.Context(), watch, wait, func() (ended bool, err error) {
		if result := watch.End(); result != nil {
			job = *result
			return true, nil
		}
		if !isCurrent {
			var latest engine.Job
			if latest, err = a.readJob(httplimit.AnswerContext(r.Context()), t); err == nil || !sqldb.Temporary(err) {
				job = latest
			}
		}
		isCurrent = false
		return job.State.Terminal(), err
	})
	if err != nil && (job.State == "" || !sqldb.Temporary(err)) {
		return err
	}
	answer := job
	job.Output = nil // answerJob drops the last reference to it once it is encoded
	if err = a.answerJob(w, r, t, answer); submitted.ID != "" && errors.Is(err, httplimit.ErrMemory) {
		job.State, job.Error, job.Finished, err = engine.InProgress, "", time.Time{}, nil
		writeJob(w, job)
	}
	return err
}
