package jobapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/fault"
)

// hold looks at a job now and whenever something happens to it, until that is
// enough, the wait is over, or ctx ends, whose error it then answers.
func (a *api) hold(ctx context.Context, t target, wait time.Duration, look func() (enough bool, err error)) error {
	watch := a.Engine.Watch(t.endpoint, t.job)
	defer watch.Stop()
	elapsed := a.Clock.NewTimer(wait)
	defer elapsed.Stop()
	for over := false; ; {
		enough, err := look()
		if err != nil || enough && !fault.On("wait-to-the-end") || over {
			return err
		}
		select {
		case <-watch.C:
		case <-elapsed.C:
			over = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answerEnd answers a job when it is over, or when the wait is: then as it
// stands. A client that goes away leaves the job as it is.
func (a *api) answerEnd(w http.ResponseWriter, r *http.Request, t target, wait time.Duration) error {
	var job engine.Job
	err := a.hold(r.Context(), t, wait, func() (enough bool, err error) {
		job, err = a.Engine.Get(r.Context(), t.endpoint, t.job)
		return job.State.Terminal(), err
	})
	if err != nil {
		return err
	}
	writeJob(w, job)
	return nil
}
