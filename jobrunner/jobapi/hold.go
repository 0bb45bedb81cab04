package jobapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// lookAgain is the pause after a look that failed because the database was not
// available. It goes by real time, which is the database's.
const lookAgain = 250 * time.Millisecond

// hold looks at a job now and whenever something happens to it, until that is
// enough, the wait is over, or ctx ends, whose error it then answers. An outage
// of the database ends no wait; at the end of the wait it is the answer. A stop of
// the deployment ends the wait.
func (a *api) hold(ctx context.Context, t target, wait time.Duration, look func() (enough bool, err error)) error {
	return a.holdBy(ctx, a.Engine.Watch(t.endpoint, t.job), wait, look)
}

// holdBy is hold with a watch that has begun, and which it ends.
func (a *api) holdBy(ctx context.Context, watch *engine.Watch, wait time.Duration, look func() (enough bool, err error)) error {
	defer watch.Stop()
	elapsed := a.Clock.NewTimer(wait)
	defer elapsed.Stop()
	for over := false; ; {
		enough, err := look()
		if err != nil && !engine.Temporary(err) || enough || over {
			return err
		}
		var again <-chan time.Time
		if err != nil {
			again = time.After(lookAgain)
		}
		select {
		case <-watch.C:
		case <-again:
		case <-elapsed.C:
			over = true
		case <-ctx.Done():
			if httplimit.Stopping(ctx) {
				_, err = look() // once more, before the answer
				return err
			}
			return ctx.Err()
		}
	}
}

// answerEnd answers a job when it is over, or when the wait is: then as it
// stands, or, where the database is not available, as it was seen last. A client
// that goes away leaves the job as it is.
func (a *api) answerEnd(w http.ResponseWriter, r *http.Request, t target, wait time.Duration, job engine.Job) error {
	size := 0
	err := a.hold(r.Context(), t, wait, func() (enough bool, err error) {
		now, bytes, err := a.look(httplimit.Answering(r.Context()), t)
		if err == nil || !engine.Temporary(err) {
			job, size = now, bytes
		}
		return job.State.Terminal(), err
	})
	if err != nil && (job.State == "" || !engine.Temporary(err)) {
		return err
	}
	return a.answerJob(w, r, t, job, size)
}

// answerOwn is answerEnd for a job that the request itself submitted: a result
// that this process records reaches the watch, and need not be read.
func (a *api) answerOwn(w http.ResponseWriter, r *http.Request, t target, wait time.Duration, job engine.Job, watch *engine.Watch) error {
	t.job = job.ID
	size, unread := 0, false // unread: the job may have ended
	read := func() error {
		now, bytes, err := a.look(httplimit.Answering(r.Context()), t)
		if err == nil || !engine.Temporary(err) {
			job, size, unread = now, bytes, false
		}
		return err
	}
	err := a.holdBy(r.Context(), watch, wait, func() (ended bool, err error) {
		result, look := watch.End()
		if result != nil {
			job, size = *result, len(result.Output)
			return true, nil
		}
		if unread = unread || look; unread {
			err = read()
		}
		return job.State.Terminal(), err
	})
	if err == nil && !job.State.Terminal() { // the wait is over
		err = read()
	}
	if err != nil && (job.State == "" || !engine.Temporary(err)) {
		return err
	}
	return a.answerJob(w, r, t, job, size)
}
