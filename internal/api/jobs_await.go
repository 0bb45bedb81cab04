package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// How often Await polls a job, and how long cancelling an abandoned job may take.
const (
	firstPoll   = 250 * time.Millisecond
	longestPoll = 5 * time.Second
	cancelTime  = 10 * time.Second
)

// JobError reports a job that didn't complete.
type JobError struct {
	EndpointID string
	Job        Job   // as last seen
	Err        error // why Await stopped waiting; nil if the job has ended
	Cancelled  bool  // the job was cancelled after that
	CancelErr  error // why cancelling failed
}

// Error names the job, its status and the worker's error.
func (e *JobError) Error() string {
	about := fmt.Sprintf("job %s of endpoint %s", e.Job.ID, e.EndpointID)
	switch {
	case e.Err == nil && e.Job.Error != "":
		return fmt.Sprintf("%s ended as %s: %s", about, e.Job.Status, e.Job.Error)
	case e.Err == nil:
		return fmt.Sprintf("%s ended as %s", about, e.Job.Status)
	}
	text := fmt.Sprintf("the wait for %s ended while it was %s: %s", about, e.Job.Status, e.Err)
	switch {
	case e.Cancelled:
		text += "; it was cancelled"
	case e.CancelErr != nil:
		text += fmt.Sprintf("; it could not be cancelled, and may go on: %s", e.CancelErr)
	}
	return text
}

func (e *JobError) Unwrap() error { return e.Err }

// Await waits until a job has ended, and reports its status before each poll. An error is a
// *JobError, including for a job that ended without completing.
func (j *Jobs) Await(ctx context.Context, endpointID string, job Job, progress func(Job)) (Job, error) {
	wait := firstPoll
	for !job.Finished() {
		progress(job)
		err := httpclient.Sleep(ctx, wait)
		if err == nil {
			wait = min(wait*3/2, longestPoll)
			var now Job
			if now, err = j.Status(ctx, endpointID, job.ID); err == nil {
				job = now
				continue
			}
		}
		return job, &JobError{EndpointID: endpointID, Job: job, Err: whyGivenUp(ctx, err)}
	}
	if job.Status != "COMPLETED" {
		return job, &JobError{EndpointID: endpointID, Job: job}
	}
	return job, nil
}

func whyGivenUp(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.Canceled):
		return interrupted{}
	case cause != nil:
		return cause
	case IsNotFound(err):
		return fmt.Errorf("it does not exist any more (its ttl or its retention is over, or the endpoint is deleted): %w", err)
	}
	return err
}

// interrupted is context.Canceled in a word for people.
type interrupted struct{}

func (interrupted) Error() string        { return "interrupted" }
func (interrupted) Is(target error) bool { return target == context.Canceled }

// RunToEnd submits a job and waits for it, at most the timeout. It cancels a job that it stops
// waiting for.
func (j *Jobs) RunToEnd(ctx context.Context, endpointID string, s Submission, timeout time.Duration, progress func(Job)) (Job, error) {
	waiting, done := context.WithTimeoutCause(ctx, timeout, NotFinished(timeout))
	defer done()
	job, err := j.Run(waiting, endpointID, s)
	if err != nil {
		return job, fmt.Errorf("the job could not be submitted to endpoint %s: %w", endpointID, err)
	}
	job, err = j.Await(waiting, endpointID, job, progress)
	if failure, ok := errors.AsType[*JobError](err); ok && failure.Err != nil && !IsNotFound(failure.Err) {
		cancelling, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer done()
		_, failure.CancelErr = j.Cancel(cancelling, endpointID, job.ID)
		failure.Cancelled = failure.CancelErr == nil
	}
	return job, err
}

// NotFinished returns the cause of a timeout.
func NotFinished(timeout time.Duration) error { return fmt.Errorf("not finished after %s", timeout) }
