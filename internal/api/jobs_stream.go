package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

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

// Stream passes the chunks of a job to show as they arrive, until the job has ended, and its
// status to progress. The service returns each chunk only once: chunks that were read before
// are missing.
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
			job, err = j.Status(ctx, endpointID, jobID)
		}
	}
	return job, err
}

func (j *Jobs) chunks(ctx context.Context, endpointID, jobID string, wait time.Duration) (chunks []Chunk, err error) {
	err = j.do(ctx, endpointID, "/stream/"+jobID, httpclient.Call{
		Method: http.MethodGet, ExtraTime: wait,
		Query: url.Values{"wait": {strconv.FormatInt(wait.Milliseconds(), 10)}},
	}, &chunks)
	return chunks, err
}

// Unread returns the number of unread chunks that the job's output lacks.
// Only a jobrunner returns it, in a header that the contract doesn't have. Elsewhere it is 0.
func (j *Jobs) Unread(ctx context.Context, endpointID, jobID string) (n int, err error) {
	err = j.do(ctx, endpointID, "/status/"+jobID, httpclient.Call{Method: http.MethodGet, Succeeded: func(r *httpclient.Response) {
		n, _ = strconv.Atoi(r.Header.Get("X-Unread-Chunks")) // 0 without it
	}}, nil)
	return n, err
}
