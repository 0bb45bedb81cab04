package jobrunnertest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
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
	Env      map[string]string // variables of the worker: the template's and its own
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

// Sleep waits by the deployment's clock, which [Jobrunner.Advance] advances. It returns the error of
// ctx.
func (j Job) Sleep(ctx context.Context, d time.Duration) error { return j.clock.Sleep(ctx, d) }

// Handle makes a function run the jobs of an image. The image is a pattern as in a jobrunner.yaml:
// team/worker matches all its tags, team/** every image of the team. The first matching Handle
// applies, before files and rules.
func Handle(image string, h Handler) Option {
	return func(s *settings) { s.handlers = append(s.handlers, goHandler{image: image, handler: h}) }
}

type goHandler struct {
	image   string
	matches func(image string) bool
	handler Handler
}

// openPrograms sets up the programs of images that aren't built in.
func (s *settings) openPrograms(ctx context.Context, t testing.TB, c *jobrunner.Config) error {
	p := programs{handlers: slices.Clone(s.handlers)}
	for i, h := range p.handlers {
		var err error
		if p.handlers[i].matches, err = host.Matcher(h.image); err != nil {
			return err
		}
	}
	ec, needed, err := s.executorConfig()
	if err != nil {
		return err
	}
	if needed {
		ec.Logger = c.Logger
		e, err := host.New(ctx, ec)
		if err != nil {
			return err
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Errorf("closing the jobrunner: %s", err)
			}
		})
		p.next, c.Pods = e, e
	}
	if needed || len(p.handlers) > 0 {
		c.Programs = p
	}
	return nil
}

// programs resolves the images of handlers, and passes others on to next.
type programs struct {
	handlers []goHandler
	next     run.Programs // nil resolves none
}

func (p programs) Program(image string) (run.Program, error) {
	for _, h := range p.handlers {
		if h.matches(image) {
			return run.Program{Handle: h.run, FollowsClock: true}, nil
		}
	}
	if p.next == nil {
		return run.Program{}, fmt.Errorf("no option of the test runs the image %s", image)
	}
	return p.next.Program(image)
}

// run runs a job of a worker.
func (h goHandler) run(ctx context.Context, j run.Job) ([]byte, error) {
	job := Job{
		ID: j.ID, Endpoint: j.Spec.Endpoint, Worker: j.Spec.ID, Attempt: j.Attempt, Input: j.Input, Env: j.Spec.Env,
		chunk: j.Chunk, clock: j.Clock,
	}
	for _, d := range j.Spec.Devices {
		job.GPUs = append(job.GPUs, d.UUID)
	}
	for _, m := range j.Spec.Mounts {
		job.Volume = m.Dir
	}
	output, err := h.handler(ctx, job)
	if err != nil {
		return nil, err
	}
	return json.Marshal(output)
}
