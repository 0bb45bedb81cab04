package host

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

// Limits of the output of one job.
const (
	maxLine   = 20 << 20  // bytes of a line on stdout: the same as a worker's post
	maxOutput = 256 << 20 // bytes of all lines of JSON
	maxTail   = 4 << 10   // bytes of stderr in an error
)

// handler runs a command per job. Stdin is the input, as a line of JSON. Each line of JSON
// on stdout is a chunk of the stream, and the last one is also the output. Other lines and
// stderr go to the worker's log. If the command fails, the end of stderr is the error.
func (e *Executor) handler(l *localSettings) run.Handler {
	return func(ctx context.Context, job run.Job) (output []byte, err error) {
		c, err := l.command(*job.Spec, jobVariable+"="+job.ID)
		if err != nil {
			return nil, err
		}
		stdout, w := io.Pipe()
		stderr := &tail{maxBytes: maxTail}
		c.Stdin, c.Stdout, c.Register = newInput(job.Input), w, e.register
		log := &wholeLines{to: job.Spec.Log}
		c.Output = io.MultiWriter(stderr, log)
		group, err := procgroup.Start(c)
		if err != nil {
			return nil, err
		}
		go func() {
			<-group.Done()
			_ = w.Close()
		}()
		stop := context.AfterFunc(ctx, group.Signal)
		defer stop()

		output, err = readOutput(stdout, job)
		_ = stdout.Close() // the command can't block on it, so Kill returns
		if err != nil {
			group.Kill()
		}
		<-group.Done()
		log.flush()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		case !group.Succeeded():
			return nil, commandError(stderr.String(), group.Exit())
		}
		return output, nil
	}
}

// readOutput passes on stdout and returns the last line of JSON.
func readOutput(stdout io.Reader, job run.Job) (output []byte, err error) {
	total := 0
	for lines := newLines(stdout); ; {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return output, nil
		case err != nil:
			return nil, err
		case len(line) == 0:
			continue
		case !rawjson.Valid(line):
			_, _ = job.Spec.Log.Write(append(line, '\n')) // best effort
			continue
		}
		if total += len(line); total > maxOutput {
			return nil, fmt.Errorf("the command wrote more than %d MB of JSON to stdout, and was stopped", maxOutput>>20)
		}
		output = line
		if err := job.Chunk(line); err != nil {
			return nil, err
		}
	}
}

func commandError(stderr, exit string) error {
	if stderr == "" {
		return fmt.Errorf("the command ended with %s, and wrote nothing to stderr", exit)
	}
	return fmt.Errorf("%s\n(%s)", stderr, exit)
}
