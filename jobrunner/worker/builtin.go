package worker

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// handler runs one job and returns its output, as JSON. ctx ends when the job
// is no longer this worker's, or its execution time-out passed.
type handler func(ctx context.Context, job engine.Taken) (output []byte, err error)

// builtin are the images that need no set-up.
var builtin = map[string]handler{
	"builtin/echo": echo,
}

// echo returns the input.
func echo(_ context.Context, job engine.Taken) ([]byte, error) { return job.Input, nil }
