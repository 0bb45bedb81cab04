package jobrunnertest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
)

// Handler runs a job. Its result is the job's output, encoded as JSON; an error fails the job. ctx
// ends when the job is cancelled or times out, or the deployment stops.
type Handler func(ctx context.Context, job Job) (output any, err error)

// Job is a job for a Handler.
type Job struct {
	ID       string
	Endpoint string
	Worker   string
	Attempt  int // 1 for the first dispatch of the job
	Input    json.RawMessage
	Env      map[string]string // variables of the worker, including the template's and the endpoint's
	GPUs     []string          // UUIDs of the worker's GPUs
	Volume   string            // folder of the endpoint's network volume; "" without one

	chunk func(output []byte) error
	clock *clock.Clock
}

// Decode decodes the input.
func (j Job) Decode(v any) error { return json.Unmarshal(j.Input, v) }

// Yield adds a part to the job's stream, as JSON.
func (j Job) Yield(part any) error {
	text, err := json.Marshal(part)
	if err != nil {
		return err
	}
	return j.chunk(text)
}

// Sleep waits by the deployment's clock, which [Jobrunner.Advance] advances. It returns the error of ctx.
func (j Job) Sleep(ctx context.Context, d time.Duration) error { return j.clock.Sleep(ctx, d) }

// Handle makes a function run the jobs of an image. The image is a pattern as in a jobrunner.yaml:
// team/worker matches all its tags, team/** every image of the team. The first matching Handle
// applies, before each [HandleFile] and the rules of [ConfigFile].
func Handle(image string, h Handler) Option {
	return func(s *settings) { s.handlers = append(s.handlers, host.Handler{Image: image, Func: h.run}) }
}

func (h Handler) run(ctx context.Context, j run.Job) ([]byte, error) {
	job := Job{
		ID: j.ID, Endpoint: j.Spec.Endpoint, Worker: j.Spec.ID, Attempt: j.Attempt, Input: j.Input, Env: j.Spec.Env,
		GPUs: j.Spec.DeviceUUIDs(), chunk: j.Chunk, clock: j.Clock,
	}
	for _, m := range j.Spec.Mounts {
		job.Volume = m.Dir
	}
	output, err := h(ctx, job)
	if err != nil {
		return nil, err
	}
	return json.Marshal(output)
}
