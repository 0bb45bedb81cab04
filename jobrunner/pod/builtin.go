package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kballard/go-shellquote"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// builtinImages are those that need no set-up. As pods they do what their args say.
var builtinImages = []string{"builtin/echo", "builtin/conformance"}

// Program finds what runs an image; no configuration changes what is built in.
func (p programs) Program(image string) (Program, error) {
	switch {
	case slices.Contains(builtinImages, image):
		return Program{Start: startBuiltin(p.clock)}, nil
	case p.next == nil:
		return Program{}, fmt.Errorf("no executor on this machine runs the image %s", image)
	}
	return p.next.Program(image)
}

// Left are the containers of an earlier run.
func (p programs) Left(ctx context.Context, deployment string) []Left {
	if p.next == nil {
		return nil
	}
	return p.next.Left(ctx, deployment)
}

// LeftNetworks are those that an earlier run made for clusters.
func (p programs) LeftNetworks(ctx context.Context, deployment string) []string {
	if p.next == nil {
		return nil
	}
	return p.next.LeftNetworks(ctx, deployment)
}

// RemoveNetwork removes a cluster's network.
func (p programs) RemoveNetwork(ctx context.Context, name string) error {
	if p.next == nil {
		return nil
	}
	return p.next.RemoveNetwork(ctx, name)
}

// builtin is a pod that is a part of the jobrunner. It listens at no port.
type builtin struct {
	stop   context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	status int
	killed bool
}

// startBuiltin does what the args say, one after the other, and then nothing until it is
// stopped:
//
//	print TEXT   writes a line
//	env NAME     writes the value of a variable
//	sleep MS     waits
//	exit N       ends
func startBuiltin(c *clock.Clock) func(context.Context, Spec) (Process, error) {
	return func(_ context.Context, s Spec) (Process, error) {
		words, err := shellquote.Split(s.Args)
		if err != nil {
			return nil, fmt.Errorf("the pod's args can't be split into words: %w", err)
		}
		ctx, stop := context.WithCancel(context.Background())
		b := &builtin{stop: stop, done: make(chan struct{})}
		go func() {
			defer close(b.done)
			defer stop()
			status, err := perform(ctx, c, s, words)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.status, b.killed = status, err != nil
		}()
		return b, nil
	}
}

// perform answers the status with which the program ends. The error is that it was
// stopped.
func perform(ctx context.Context, c *clock.Clock, s Spec, words []string) (status int, err error) {
	for ; len(words) > 1; words = words[2:] {
		what, with := words[0], words[1]
		n, failed := strconv.Atoi(with)
		switch {
		case what == "print":
			s.Line(with, "")
		case what == "env":
			s.Line(with+"="+s.Env[with], "")
		case what == "sleep" && failed == nil:
			if err := c.Sleep(ctx, time.Duration(n)*time.Millisecond); err != nil {
				return 0, err
			}
		case what == "exit" && failed == nil:
			return n, nil
		default:
			s.Line(fmt.Sprintf("invalid args: expected print, env, sleep or exit with its value, got %q", what+" "+with), "")
			return 2, nil
		}
	}
	<-ctx.Done()
	return 0, errors.New("stopped")
}

func (b *builtin) Done() <-chan struct{} { return b.done }

func (b *builtin) Succeeded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status == 0 && !b.killed
}

func (b *builtin) Exit() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.killed {
		return "stopped by the jobrunner"
	}
	return "exit status " + strconv.Itoa(b.status)
}

func (b *builtin) Kill() {
	b.stop()
	<-b.done
}

func (b *builtin) Stop(time.Duration)  { b.Kill() }
func (b *builtin) Usage() worker.Usage { return worker.Usage{} }
func (b *builtin) Address() string     { return "" }
