package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// ErrCrashed says that the worker died of the job.
var ErrCrashed = errors.New("the worker crashed")

// builtin are the images that need no set-up.
var builtin = map[string]run.Handler{
	"builtin/echo":        echo,
	"builtin/conformance": conformance,
}

// echo returns the input.
func echo(_ context.Context, job run.Job) ([]byte, error) { return job.Input, nil }

// programs are the built-in ones, and behind them those of this machine.
type programs struct{ next run.Programs }

// Program finds what runs an image; no configuration changes what is built in.
func (p programs) Program(image string) (run.Program, error) {
	if handle, ok := builtin[image]; ok {
		return run.Program{Handle: handle, FollowsClock: true, Bare: true}, nil
	}
	if p.next == nil {
		return run.Program{}, fmt.Errorf("no executor on this machine runs the image %s", image)
	}
	return p.next.Program(image)
}
