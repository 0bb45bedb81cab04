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

// Chunk is a part of the output of a job whose handler yields its output bit by bit.
type Chunk struct {
	Output  json.RawMessage `json:"output"` // an object, or text
	Metrics json.RawMessage `json:"metrics,omitempty"`
}

// streamWait is how long the service may hold a request while there is no new chunk.
const streamWait = 10 * time.Second

// Stream shows the chunks of a job, each as it comes, until the job has ended. The
// service hands out each chunk once: those that somebody has read before are missing.
func (j *Jobs) Stream(ctx context.Context, endpointID, jobID string, show func(Chunk) error) (Job, error) {
	job, err := j.Status(ctx, endpointID, jobID)
	pause := firstPoll
	for err == nil {
		// The status is older than the chunks: none can follow the last ones of a job that has ended.
		ended := job.Finished()
		var chunks []Chunk
		if chunks, err = j.chunks(ctx, endpointID, jobID); err != nil {
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

func (j *Jobs) chunks(ctx context.Context, endpointID, jobID string) (chunks []Chunk, err error) {
	err = j.do(ctx, endpointID, "/stream/"+jobID, httpclient.Call{
		Method: http.MethodGet, ExtraTime: streamWait,
		Query: url.Values{"wait": {strconv.FormatInt(streamWait.Milliseconds(), 10)}},
	}, &chunks)
	return chunks, err
}
