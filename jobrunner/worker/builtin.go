package worker

import (
	"context"
	"errors"
)

// ErrCrashed says that the worker died of the job.
var ErrCrashed = errors.New("the worker crashed")

// builtin are the images that need no set-up.
var builtin = map[string]Handler{
	"builtin/echo":        echo,
	"builtin/conformance": conformance,
}

// echo returns the input.
func echo(_ context.Context, job Job) ([]byte, error) { return job.Input, nil }
