package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// Jobs is the job API of queue-based endpoints, at {queue_url}/v2/{endpoint id}.
type Jobs struct {
	deployment *deployment
	learn      func(ctx context.Context, endpointID string) error
}

// Submission is the body of Run and RunSync.
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

// Job is a job as the API returns it.
type Job struct {
	ID            string          `json:"id"`
	Status        string          `json:"status"` // IN_QUEUE, IN_PROGRESS, COMPLETED, FAILED, CANCELLED or TIMED_OUT
	DelayTime     int64           `json:"delayTime"`
	ExecutionTime int64           `json:"executionTime"`
	WorkerID      string          `json:"workerId"`
	Retries       int             `json:"retries"`
	Output        json.RawMessage `json:"output,omitempty"` // nil: none, which differs from null
	Error         string          `json:"error"`
}

// UnmarshalJSON also accepts an error that isn't text.
func (j *Job) UnmarshalJSON(data []byte) error {
	type plain Job
	wire := struct {
		*plain
		Error httpclient.FreeText `json:"error"`
	}{plain: (*plain)(j)}
	err := httpclient.Decode(data, &wire)
	j.Error = string(wire.Error)
	return err
}

// Finished reports whether the job's status is final.
func (j Job) Finished() bool {
	switch j.Status {
	case "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT":
		return true
	}
	return false
}

// Health counts an endpoint's jobs and workers.
type Health struct {
	Jobs struct {
		Completed  int `json:"completed" tfsdk:"completed"`
		Failed     int `json:"failed" tfsdk:"failed"`
		InProgress int `json:"inProgress" tfsdk:"in_progress"`
		InQueue    int `json:"inQueue" tfsdk:"in_queue"`
		Retried    int `json:"retried" tfsdk:"retried"`
	} `json:"jobs" tfsdk:"jobs"`
	Workers struct {
		Idle         int `json:"idle" tfsdk:"idle"`
		Initializing int `json:"initializing" tfsdk:"initializing"`
		Ready        int `json:"ready" tfsdk:"ready"`
		Running      int `json:"running" tfsdk:"running"`
		Throttled    int `json:"throttled" tfsdk:"throttled"`
		Unhealthy    int `json:"unhealthy" tfsdk:"unhealthy"`
	} `json:"workers" tfsdk:"workers"`
}

// Total is the number of workers.
func (h Health) Total() int {
	w := h.Workers
	return w.Idle + w.Initializing + w.Running + w.Throttled + w.Unhealthy
}

// defaultWait is how long the service holds a RunSync without a wait.
const defaultWait = 90 * time.Second

// Run submits a job and returns its id without waiting for it.
func (j *Jobs) Run(ctx context.Context, endpointID string, s Submission) (Job, error) {
	return j.submit(ctx, endpointID, "/run", s, httpclient.Call{})
}

// RunSync submits a job and waits until it ends, at most wait (1 s to 5 min, rounded to
// milliseconds; 0 means the service's 90 s). A job that isn't finished by then isn't an error.
func (j *Jobs) RunSync(ctx context.Context, endpointID string, s Submission, wait time.Duration) (Job, error) {
	c := httpclient.Call{ExtraTime: defaultWait}
	if wait > 0 {
		c.ExtraTime = wait
		c.Query = url.Values{"wait": {strconv.FormatInt(wait.Round(time.Millisecond).Milliseconds(), 10)}}
	}
	return j.submit(ctx, endpointID, "/runsync", s, c)
}

func (j *Jobs) submit(ctx context.Context, endpointID, path string, s Submission, c httpclient.Call) (Job, error) {
	c.Method, c.Body = http.MethodPost, s
	answer := identified[Job]{kind: "job", decode: decodePlain[Job]}
	err := j.do(ctx, endpointID, path, c, &answer)
	return j.redacted(ctx, endpointID, answer.object, err)
}

// Status reads a job.
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
	err = j.do(ctx, endpointID, "/purge-queue", httpclient.Call{Method: http.MethodPost}, &answer)
	if err == nil && answer.Removed == nil {
		err = errors.New("the queue was purged, and the answer does not say how many jobs were removed")
	}
	return deref(answer.Removed), err
}

func (j *Jobs) job(ctx context.Context, method, endpointID, path, jobID string) (Job, error) {
	if err := checkID("job", jobID); err != nil {
		return Job{}, err
	}
	answer := identified[Job]{kind: "job", want: jobID, decode: decodePlain[Job]}
	err := j.do(ctx, endpointID, path+jobID, httpclient.Call{Method: method}, &answer)
	return j.redacted(ctx, endpointID, answer.object, err)
}

// Health counts the endpoint's jobs and workers.
func (j *Jobs) Health(ctx context.Context, endpointID string) (Health, error) {
	var health Health
	err := j.do(ctx, endpointID, "/health", httpclient.Call{Method: http.MethodGet}, &health)
	return health, err
}

// StartFailure returns the reason why no worker of the endpoint works, and whether one is still starting,
// which may succeed. Only a jobrunner returns the reason, in a member of the health that the contract
// doesn't have.
func (j *Jobs) StartFailure(ctx context.Context, endpointID string) (reason string, starting bool, err error) {
	var health struct {
		Health
		Reason string `json:"reason"`
	}
	err = j.do(ctx, endpointID, "/health", httpclient.Call{Method: http.MethodGet}, &health)
	return health.Reason, health.Workers.Initializing > 0, err
}

func (j *Jobs) do(ctx context.Context, endpointID, path string, c httpclient.Call, out any) error {
	if err := checkID("endpoint", endpointID); err != nil {
		return err
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
