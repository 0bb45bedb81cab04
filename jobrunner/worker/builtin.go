package worker

import (
	"context"
	"errors"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// handler runs one job and returns its output, as JSON, or errCrashed. ctx
// ends when the job is no longer this worker's: it was cancelled, its time is
// over, it is gone, or the worker is to stop.
type handler func(ctx context.Context, job run) (output []byte, err error)

// run is a job in a handler's hands.
type run struct {
	engine.Taken
	Clock *clock.Clock // a handler that waits does so on it
	// Chunk passes on a part of the output, in JSON.
	Chunk func(output []byte) error
}

// errCrashed says that the worker died of the job.
var errCrashed = errors.New("the worker crashed")

// builtin are the images that need no set-up.
var builtin = map[string]handler{
	"builtin/echo":        echo,
	"builtin/conformance": conformance,
}

// echo returns the input.
func echo(_ context.Context, job run) ([]byte, error) { return job.Input, nil }
