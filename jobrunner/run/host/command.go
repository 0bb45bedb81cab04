package host

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// What one job of a command may write.
const (
	maxLine   = 20 << 20  // bytes of a line on stdout: as much as a worker posts at a time
	maxOutput = 256 << 20 // bytes of all its lines of JSON
	maxTail   = 4 << 10   // bytes of stderr that become an error
)

// handler runs a command per job: the input on stdin, in JSON and with a
// newline; each line of JSON on stdout is a chunk of the stream as soon as it
// is there, and the last one is the output too. Other lines go to the worker's
// log, as does stderr, the end of which is the error of a command that fails.
func (e *Executor) handler(l *localSettings) worker.Handler {
	return func(ctx context.Context, job worker.Job) (output []byte, err error) {
		c, err := l.command(*job.Spec, jobVariable+"="+job.ID)
		if err != nil {
			return nil, err
		}
		stdout, to := io.Pipe()
		stderr := &tail{most: maxTail}
		c.Stdin, c.Stdout, c.Register = newInput(job.Input), to, e.register
		log := &wholeLines{to: job.Spec.Log}
		c.Output = io.MultiWriter(stderr, log)
		group, err := procgroup.Start(c)
		if err != nil {
			return nil, err
		}
		go func() {
			<-group.Done()
			_ = to.Close()
		}()
		stop := context.AfterFunc(ctx, group.Signal)
		defer stop()

		output, err = readOutput(stdout, job)
		_ = stdout.Close() // nothing more is taken, so that a Kill need not wait
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

// readOutput passes on what a command writes to stdout, and answers its last line of
// JSON.
func readOutput(stdout io.Reader, job worker.Job) (output []byte, err error) {
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
			_, _ = job.Spec.Log.Write(append(line, '\n')) // a log may lack lines
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
