package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// ErrCrashed means that the worker died while it ran the job.
var ErrCrashed = errors.New("the worker crashed")

// builtin has the handlers of the images that need no set-up.
var builtin = map[string]run.Handler{
	"builtin/echo":        echo,
	"builtin/conformance": conformance,
}

// echo returns the input.
func echo(_ context.Context, job run.Job) ([]byte, error) { return job.Input, nil }

// programs resolves the built-in images, and passes the others on to next.
type programs struct{ next run.Programs }

// Program resolves an image. No configuration overrides a built-in one.
func (p programs) Program(image string) (run.Program, error) {
	if handle, ok := builtin[image]; ok {
		return run.Program{Handle: handle, FollowsClock: true, Bare: true}, nil
	}
	if p.next == nil {
		return run.Program{}, fmt.Errorf("no executor on this machine runs the image %s", image)
	}
	return p.next.Program(image)
}
