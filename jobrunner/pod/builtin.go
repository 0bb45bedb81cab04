package pod

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// builtinImages need no set-up. As pods they execute their start command.
var builtinImages = []string{"builtin/echo", "builtin/conformance"}

// programs resolves built-in images, and other images as run.PodPrograms does.
type programs struct {
	run.PodPrograms
	clock *clock.Clock
}

// Program implements run.Programs. No configuration overrides a built-in image.
func (p programs) Program(image string) (program run.Program, err error) {
	if slices.Contains(builtinImages, image) {
		return run.Program{Start: startBuiltin(p.clock)}, nil
	}
	program, err = p.PodPrograms.Program(image)
	if err == nil && program.Start == nil {
		err = fmt.Errorf("the rule for the image %s is a command, which runs a job: a pod needs a process or a container", image)
	}
	return program, err
}

// builtin is a pod that runs in the jobrunner. It listens on no port.
type builtin struct {
	stop context.CancelFunc
	done chan struct{}
	exit run.Exit // set once done is closed
}

// startBuiltin returns a function that starts a built-in pod. The pod executes the words of its start
// command in order, and then waits until it is stopped:
//
//	print TEXT   writes a line
//	env NAME     writes the value of a variable
//	sleep MS     waits
//	exit N       ends
func startBuiltin(c *clock.Clock) func(context.Context, run.Spec) (run.Process, error) {
	return func(_ context.Context, s run.Spec) (run.Process, error) {
		command, err := s.Command()
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(context.Background())
		b := &builtin{stop: stop, done: make(chan struct{})}
		go func() {
			defer close(b.done)
			defer stop()
			status, err := execute(ctx, c, s, command.Words())
			if err != nil {
				b.exit.Text = run.Stopped
				return
			}
			b.exit = run.Exit{Text: "exit status " + strconv.Itoa(status), OK: status == 0}
		}()
		return b, nil
	}
}

// execute returns the exit status of a start command. The error means that the pod was stopped.
func execute(ctx context.Context, c *clock.Clock, s run.Spec, words []string) (status int, err error) {
	for pair := range slices.Chunk(words, 2) {
		command, value := pair[0], pair[len(pair)-1]
		n, err := strconv.Atoi(value)
		switch {
		case len(pair) == 1:
			s.Log.WriteLine(fmt.Sprintf("invalid args: %q has no value", command), "")
			return 2, nil
		case command == "print":
			s.Log.WriteLine(value, "")
		case command == "env":
			s.Log.WriteLine(value+"="+s.Env[value], "")
		case command == "sleep" && err == nil:
			if err := c.Sleep(ctx, min(time.Duration(n), math.MaxInt64/time.Millisecond)*time.Millisecond); err != nil {
				return 0, err
			}
		case command == "exit" && err == nil:
			return n, nil
		default:
			s.Log.WriteLine(fmt.Sprintf("invalid args: expected print, env, sleep or exit with its value, got %q", command+" "+value), "")
			return 2, nil
		}
	}
	<-ctx.Done()
	return 0, errors.New("stopped")
}

func (b *builtin) Done() <-chan struct{} { return b.done }
func (b *builtin) Exit() run.Exit        { return b.exit }
func (b *builtin) Usage() run.Usage      { return run.Usage{} }
func (b *builtin) Address() string       { return "" }

func (b *builtin) Stop(time.Duration) {
	b.stop()
	<-b.done
}
