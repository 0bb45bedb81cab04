package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// Jobs is the job API of queue-based endpoints, at {queue_url}/v2/{endpoint id}.
type Jobs struct {
	deployment     *deployment
	redactEndpoint func(ctx context.Context, endpointID string) error
}

type Submission struct {
	Input    json.RawMessage `json:"input"` // an object
	Webhook  string          `json:"webhook,omitempty"`
	Policy   *JobPolicy      `json:"policy,omitempty"`
	S3Config *S3Config       `json:"s3Config,omitempty"`
}

// JobPolicy limits one job. A nil member means the service's default.
type JobPolicy struct {
	ExecutionTimeout *int64 `json:"executionTimeout,omitempty"` // longest execution in milliseconds
	LowPriority      *bool  `json:"lowPriority,omitempty"`      // starts no worker for the job
	TTL              *int64 `json:"ttl,omitempty"`              // milliseconds from submission to deletion
}

// S3Config is passed to the worker, which may store its results there.
type S3Config struct {
	AccessID     string `json:"accessId,omitempty"`
	AccessSecret string `json:"accessSecret,omitempty"`
	BucketName   string `json:"bucketName,omitempty"`
	EndpointURL  string `json:"endpointUrl,omitempty"`
}

type Job struct {
	ID            string              `json:"id"`
	Status        string              `json:"status"`        // IN_QUEUE, IN_PROGRESS, COMPLETED, FAILED, CANCELLED or TIMED_OUT
	DelayTime     int64               `json:"delayTime"`     // milliseconds in the queue
	ExecutionTime int64               `json:"executionTime"` // milliseconds
	WorkerID      string              `json:"workerId"`
	Retries       int                 `json:"retries"`
	Output        json.RawMessage     `json:"output,omitempty"` // nil: none, which differs from null
	Error         httpclient.FreeText `json:"error"`
}

func (j Job) Finished() bool {
	switch j.Status {
	case "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT":
		return true
	}
	return false
}

type Health struct {
	Jobs struct {
		Completed  int `json:"completed"`
		Failed     int `json:"failed"`
		InProgress int `json:"inProgress"`
		InQueue    int `json:"inQueue"`
		Retried    int `json:"retried"`
	} `json:"jobs"`
	Workers struct {
		Idle         int `json:"idle"`
		Initializing int `json:"initializing"`
		Ready        int `json:"ready"`
		Running      int `json:"running"`
		Throttled    int `json:"throttled"`
		Unhealthy    int `json:"unhealthy"`
	} `json:"workers"`
}

func (h Health) Total() int {
	w := h.Workers
	return w.Idle + w.Initializing + w.Running + w.Throttled + w.Unhealthy
}

// Run submits a job and returns its id without waiting for it.
func (j *Jobs) Run(ctx context.Context, endpointID string, s Submission) (Job, error) {
	answer := objectAnswer[Job]{kind: "job", decode: decodePlain[Job]}
	_, err := j.do(ctx, endpointID, "/run", httpclient.Call{Method: http.MethodPost, Body: s}, &answer)
	return j.redactJob(ctx, endpointID, answer.object, err)
}

func (j *Jobs) Status(ctx context.Context, endpointID, jobID string) (Job, error) {
	return j.job(ctx, http.MethodGet, endpointID, "/status/", jobID)
}

// Cancel stops a job, or removes it from the queue.
func (j *Jobs) Cancel(ctx context.Context, endpointID, jobID string) (Job, error) {
	return j.job(ctx, http.MethodPost, endpointID, "/cancel/", jobID)
}

// Retry queues a failed or timed-out job again, under its id.
func (j *Jobs) Retry(ctx context.Context, endpointID, jobID string) (Job, error) {
	return j.job(ctx, http.MethodPost, endpointID, "/retry/", jobID)
}

// PurgeQueue removes the waiting jobs and returns their number.
func (j *Jobs) PurgeQueue(ctx context.Context, endpointID string) (removed int, err error) {
	var answer struct {
		Removed *int `json:"removed"`
	}
	_, err = j.do(ctx, endpointID, "/purge-queue", httpclient.Call{Method: http.MethodPost}, &answer)
	if err == nil && answer.Removed == nil {
		err = errors.New("the queue was purged, and the answer does not say how many jobs were removed")
	}
	return deref(answer.Removed), err
}

func (j *Jobs) job(ctx context.Context, method, endpointID, path, jobID string) (Job, error) {
	if err := checkID("job", jobID); err != nil {
		return Job{}, err
	}
	answer := objectAnswer[Job]{kind: "job", want: jobID, decode: decodePlain[Job]}
	_, err := j.do(ctx, endpointID, path+jobID, httpclient.Call{Method: method}, &answer)
	return j.redactJob(ctx, endpointID, answer.object, err)
}

// Health counts the endpoint's jobs and workers.
func (j *Jobs) Health(ctx context.Context, endpointID string) (Health, error) {
	health, err := j.health(ctx, endpointID)
	return health.Health, err
}

// StartFailure returns the reason why no worker of the endpoint works, and whether one is still starting,
// which may succeed. Only a jobrunner returns the reason, in a member of the health that the contract
// doesn't have.
func (j *Jobs) StartFailure(ctx context.Context, endpointID string) (reason string, starting bool, err error) {
	health, err := j.health(ctx, endpointID)
	return health.Reason, health.Workers.Initializing > 0, err
}

type healthWithReason struct {
	Health
	Reason string `json:"reason"`
}

func (j *Jobs) health(ctx context.Context, endpointID string) (health healthWithReason, err error) {
	_, err = j.do(ctx, endpointID, "/health", httpclient.Call{Method: http.MethodGet}, &health)
	return health, err
}

func (j *Jobs) do(ctx context.Context, endpointID, path string, c httpclient.Call, out any) (*httpclient.Response, error) {
	if err := checkID("endpoint", endpointID); err != nil {
		return nil, err
	}
	c.URL, c.Untracked = j.url(endpointID, path), true
	return j.deployment.Do(ctx, c, out)
}

func (j *Jobs) url(endpointID, path string) string {
	return jobURL(j.deployment.settings.QueueURL, endpointID, path)
}

func jobURL(queueURL, endpointID, path string) string { return queueURL + "/v2/" + endpointID + path }

// RunURL returns the URL of Run without a client. An error is a *SettingError about queue_url.
func RunURL(queueURL, endpointID string) (string, error) {
	queueURL, err := validAddress("queue_url", queueURL)
	return jobURL(queueURL, endpointID, "/run"), err
}

// URLs builds the URLs of an endpoint's job API, for API versions that return none.
func (j *Jobs) URLs(endpointID string) RequestURLs {
	return RequestURLs{
		Run:        j.url(endpointID, "/run"),
		RunSync:    j.url(endpointID, "/runsync"),
		Status:     j.url(endpointID, "/status/{job_id}"),
		Stream:     j.url(endpointID, "/stream/{job_id}"),
		Cancel:     j.url(endpointID, "/cancel/{job_id}"),
		Retry:      j.url(endpointID, "/retry/{job_id}"),
		PurgeQueue: j.url(endpointID, "/purge-queue"),
		Health:     j.url(endpointID, "/health"),
	}
}

const (
	firstPoll   = 250 * time.Millisecond // the first pause of Poll
	longestPoll = 5 * time.Second        // the longest pause of Poll

	// When Await gives up, it cancels the job and reads why no worker took it, within these times.
	cancelTime = 10 * time.Second
	reasonTime = 3 * time.Second
)

// JobError reports a job that didn't complete.
type JobError struct {
	EndpointID string
	Job        Job    // as last seen
	Err        error  // why Await stopped waiting; nil if the job has ended
	Reason     string // why no worker has taken the job, or ""
	Cancelled  bool   // the job was cancelled because of Err
	CancelErr  error  // why cancelling failed
}

func (e *JobError) Error() string {
	name := fmt.Sprintf("job %s of endpoint %s", e.Job.ID, e.EndpointID)
	switch {
	case e.Err == nil && e.Job.Error != "":
		return fmt.Sprintf("%s ended as %s: %s", name, e.Job.Status, e.Job.Error)
	case e.Err == nil:
		return fmt.Sprintf("%s ended as %s", name, e.Job.Status)
	}
	text := fmt.Sprintf("the wait for %s ended while it was %s: %s", name, e.Job.Status, e.Err)
	switch {
	case e.Cancelled:
		text += "; it was cancelled"
	case e.CancelErr != nil:
		text += fmt.Sprintf("; it could not be cancelled, and may continue: %s", e.CancelErr)
	}
	if e.Reason != "" {
		text += "; " + e.Reason
	}
	return text
}

func (e *JobError) Unwrap() error { return e.Err }

// unfinishedError returns the error of a wait that ended before the job. The context may have ended, too.
func (j *Jobs) unfinishedError(ctx context.Context, endpointID string, job Job, err error) *JobError {
	e := &JobError{EndpointID: endpointID, Job: job, Err: waitError(ctx, err)}
	if job.Status != "IN_QUEUE" || IsNotFound(err) {
		return e
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), reasonTime)
	defer done()
	health, err := j.health(ctx, endpointID)
	switch w := health.Workers; {
	case err != nil:
	case health.Reason != "":
		e.Reason = "no worker is ready: " + health.Reason
	case health.Total() == 0:
		e.Reason = "the endpoint has no worker"
	case w.Idle+w.Running == 0:
		e.Reason = fmt.Sprintf("no worker is ready: %d initializing, %d throttled, %d unhealthy", w.Initializing, w.Throttled, w.Unhealthy)
	case w.Idle == 0:
		e.Reason = fmt.Sprintf("%d of the endpoint's %d workers are busy, and no other is ready", w.Running, health.Total())
	}
	return e
}

// Await waits until a job has ended, and calls progress with its status before each poll. It repeats a poll
// that gets no answer or a server error, because the job continues. An error is a *JobError, including for a
// job that ended without completing.
func (j *Jobs) Await(ctx context.Context, endpointID string, job Job, progress func(Job)) (Job, error) {
	first := true
	var outage error // of the last poll
	err := Poll(ctx, func() (done bool, err error) {
		current := job
		if !first {
			current, err = j.Status(ctx, endpointID, job.ID)
		}
		status := statusOf(err)
		switch {
		case err != nil && ctx.Err() == nil && (status == 0 || status == http.StatusTooManyRequests || status >= 500):
			outage = err
			return false, nil
		case err != nil:
			return false, err
		}
		first, outage, job = false, nil, current
		if !job.Finished() {
			progress(job)
		}
		return job.Finished(), nil
	})
	switch {
	case err != nil:
		failure := j.unfinishedError(ctx, endpointID, job, err)
		if outage != nil {
			failure.Err = fmt.Errorf("%w, and its status could not be read: %w", failure.Err, outage)
		}
		return job, failure
	case job.Status != "COMPLETED":
		return job, &JobError{EndpointID: endpointID, Job: job}
	}
	return job, nil
}

// Poll calls ask, with growing pauses, until ask returns done or an error, or the context ends.
func Poll(ctx context.Context, ask func() (done bool, err error)) error {
	for wait := firstPoll; ; wait = min(wait*3/2, longestPoll) {
		if done, err := ask(); done || err != nil {
			return err
		}
		if err := httpclient.Sleep(ctx, wait); err != nil {
			return waitError(ctx, err)
		}
	}
}

func waitError(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.Canceled):
		return interrupted{}
	case cause != nil:
		return cause
	case IsNotFound(err):
		return fmt.Errorf("it no longer exists (its ttl or retention has passed, or the endpoint was deleted): %w", err)
	}
	return err
}

// interrupted is context.Canceled with a text that users understand.
type interrupted struct{}

func (interrupted) Error() string        { return "interrupted" }
func (interrupted) Is(target error) bool { return target == context.Canceled }

// RunToEnd submits a job and awaits it, at most for the timeout. It cancels a job that it stops
// waiting for.
func (j *Jobs) RunToEnd(ctx context.Context, endpointID string, s Submission, timeout time.Duration, progress func(Job)) (Job, error) {
	return j.RunUntil(ctx, endpointID, s, timeout, func(ctx context.Context, job Job) (Job, error) {
		return j.Await(ctx, endpointID, job, progress)
	})
}

// RunUntil is RunToEnd with another function that waits for the end of the job.
func (j *Jobs) RunUntil(ctx context.Context, endpointID string, s Submission, timeout time.Duration, wait func(context.Context, Job) (Job, error)) (Job, error) {
	waitCtx, cancelWait := context.WithTimeoutCause(ctx, timeout, NotFinished(timeout))
	defer cancelWait()
	sent, err := j.Run(waitCtx, endpointID, s)
	if err != nil {
		return sent, fmt.Errorf("the job could not be submitted to endpoint %s: %w", endpointID, err)
	}
	job, err := wait(waitCtx, sent)
	failure, ok := errors.AsType[*JobError](err)
	if err != nil && !ok {
		if job.ID == "" {
			job = sent
		}
		failure = j.unfinishedError(waitCtx, endpointID, job, err)
		err = failure
	}
	if err != nil && failure.Err != nil && !IsNotFound(failure.Err) {
		cancelCtx, release := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer release()
		_, failure.CancelErr = j.Cancel(cancelCtx, endpointID, job.ID)
		failure.Cancelled = failure.CancelErr == nil
	}
	return job, err
}

// NotFinished returns the cause of a timeout.
func NotFinished(timeout time.Duration) error { return fmt.Errorf("not finished after %s", timeout) }

// Chunk is a part of the output of a job whose handler yields output in parts.
type Chunk struct {
	Output  json.RawMessage `json:"output"` // an object, or text
	Metrics json.RawMessage `json:"metrics,omitempty"`
}

// streamWait is how long the service may hold a request until a new chunk arrives.
const streamWait = 10 * time.Second

// queuedStreamWait is the streamWait of a queued job. It is short, so that progress is called
// regularly.
const queuedStreamWait = time.Second

// Stream calls show with each chunk of a job as it arrives, and progress with the job's status, until
// the job has ended. The service returns each chunk only once: chunks that were read before are
// missing.
func (j *Jobs) Stream(ctx context.Context, endpointID, jobID string, progress func(Job), show func(Chunk) error) (Job, error) {
	job, err := j.Status(ctx, endpointID, jobID)
	pause := firstPoll
	for err == nil {
		// The status is older than the chunks: if it says that the job has ended, these are the
		// last chunks.
		ended, wait := job.Finished(), streamWait
		if !ended {
			progress(job)
		}
		if job.Status == "IN_QUEUE" {
			wait = queuedStreamWait
		}
		var chunks []Chunk
		if chunks, err = j.chunks(ctx, endpointID, jobID, wait); err != nil {
			break
		}
		for _, chunk := range chunks {
			if err := show(chunk); err != nil {
				return job, err
			}
		}
		switch {
		case len(chunks) > 0:
			pause = firstPoll
			continue
		case ended:
			return job, nil
		}
		if err = httpclient.Sleep(ctx, pause); err == nil {
			pause = min(pause*3/2, longestPoll)
			var current Job
			if current, err = j.Status(ctx, endpointID, jobID); err == nil {
				job = current
			}
		}
	}
	return job, err
}

// streamAnswer is an array (service description) or an object with the member stream (the public SDKs' dialect).
type streamAnswer struct{ listAnswer[Chunk] }

func (s *streamAnswer) UnmarshalJSON(data []byte) error {
	if data[0] == '{' {
		s.member = "stream"
	}
	return s.listAnswer.UnmarshalJSON(data)
}

func (j *Jobs) chunks(ctx context.Context, endpointID, jobID string, wait time.Duration) ([]Chunk, error) {
	var answer streamAnswer
	_, err := j.do(ctx, endpointID, "/stream/"+jobID, httpclient.Call{
		Method: http.MethodGet, ExtraTime: wait,
		Query: url.Values{"wait": {strconv.FormatInt(wait.Milliseconds(), 10)}},
	}, &answer)
	return answer.objects, err
}

// UnreadChunks returns the number of unread chunks that the job's output lacks.
// Only a jobrunner returns it, in a header that the contract doesn't have. Elsewhere it is 0.
func (j *Jobs) UnreadChunks(ctx context.Context, endpointID, jobID string) (n int, err error) {
	r, err := j.do(ctx, endpointID, "/status/"+jobID, httpclient.Call{Method: http.MethodGet}, nil)
	if err == nil {
		n, _ = strconv.Atoi(r.Header.Get("X-Unread-Chunks")) // 0 without it
	}
	return n, err
}
