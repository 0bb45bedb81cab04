package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// sdkJobsFile is the file in the working folder where releases 1.7.12 to 1.9 of the public SDK
// list the jobs that they run. A killed worker leaves its job there. The next worker would
// believe that it runs that job and request no other. A running worker doesn't need the
// file: it also has its jobs in memory.
const sdkJobsFile = ".runpod_jobs.pkl"

func (e *Executor) startProcess(l *localSettings) func(context.Context, run.Spec) (run.Process, error) {
	return func(_ context.Context, s run.Spec) (run.Process, error) {
		c, err := l.command(s)
		if err != nil {
			return nil, err
		}
		if s.Pod == nil {
			_ = os.Remove(filepath.Join(c.Dir, sdkJobsFile)) // usually it doesn't exist
		}
		c.Register, c.Output = e.register, s.Log
		group, err := procgroup.Start(c)
		if err != nil {
			return nil, err
		}
		return process{group}, nil
	}
}

// process is a worker or a pod that is a local process.
type process struct{ *procgroup.Group }

func (p process) Exit() run.Exit  { return run.Exit{Text: p.Group.Exit(), OK: p.Succeeded()} }
func (p process) Address() string { return "" }

func (p process) Stop(grace time.Duration) {
	if grace > 0 {
		p.Terminate()
		select {
		case <-p.Done():
		case <-time.After(grace): // real time: processes don't follow the deployment's clock
		}
	}
	p.Kill()
}

func (l *localSettings) command(s run.Spec, env ...string) (c procgroup.Command, err error) {
	if err := l.checkTemplate(s); err != nil {
		return c, err
	}
	if c.Args, err = l.argv(s.Container); err != nil {
		return c, err
	}
	if c.Path, err = l.findProgram(c.Args[0]); err != nil {
		return c, err
	}
	c.Dir, c.Env = l.Dir.Value, l.environment(s, env...)
	return c, nil
}

// argv returns the words of a command: the rule's, and the words that the rule takes from the template.
func (l *localSettings) argv(c store.Container) (argv []string, err error) {
	for _, word := range l.Run {
		argv = append(argv, word.Value)
	}
	if l.Template.Value == "" {
		return argv, nil
	}
	command, err := c.Command()
	if l.Template.Value == templateCommand && len(command.Entrypoint) > 0 {
		argv = slices.Clone(command.Entrypoint)
	}
	argv = append(argv, command.Cmd...)
	if err == nil && len(argv) == 0 {
		err = fmt.Errorf("there is no command for the image %s: the template has neither entrypoint nor args, and the rule has no run", c.Image)
	}
	return argv, err
}

// findProgram returns the file of a program. A path is relative to the command's folder. A
// name is looked up on the rule's PATH, else on the jobrunner's. A template's PATH doesn't
// count: its author may not know this machine.
func (l *localSettings) findProgram(name string) (string, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.Dir.Value, path)
		}
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("the program %s cannot be started: %w", path, errors.Unwrap(err))
		}
		return found, nil
	}
	path := os.Getenv("PATH")
	if rulePath, ok := l.Env["PATH"]; ok {
		path = rulePath.Value
	}
	for _, folder := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(folder, name)); err == nil && filepath.IsAbs(folder) {
			return found, nil
		}
	}
	return "", fmt.Errorf("there is no program %s on PATH: install it, or name it with its folder (./%s if it is in dir)", name, name)
}

const (
	maxLine   = 20 << 20  // bytes of a line on stdout: the same as a worker's post
	maxOutput = 256 << 20 // bytes of all lines of JSON
	maxTail   = 4 << 10   // bytes of stderr in an error
)

// handler returns a function that runs a command per job. Stdin is the input, as a line of JSON. Each line of JSON
// on stdout is a chunk of the stream, and the last chunk is also the output. Other lines and
// stderr go to the worker's log. If the command fails, the end of stderr is the error.
func (e *Executor) handler(l *localSettings) run.Handler {
	return func(ctx context.Context, job run.Job) (output []byte, err error) {
		c, err := l.command(*job.Spec, jobVariable+"="+job.ID)
		if err != nil {
			return nil, err
		}
		stdout, w := io.Pipe()
		stderr := &tail{maxBytes: maxTail}
		c.Stdin = io.MultiReader(bytes.NewReader(job.Input), strings.NewReader("\n"))
		c.Stdout, c.Register = w, e.register
		log := &wholeLines{output: job.Spec.Log}
		c.Output = io.MultiWriter(stderr, log)
		group, err := startWhenPossible(ctx, c, job.Spec.Log)
		if err != nil {
			return nil, err
		}
		go func() {
			<-group.Done()
			_ = w.Close()
		}()
		defer context.AfterFunc(ctx, group.KillNoWait)()

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
		case group.Succeeded():
			return output, nil
		case stderr.String() == "":
			return output, fmt.Errorf("the command ended with %s, and wrote nothing to stderr", group.Exit())
		}
		return output, fmt.Errorf("%s\n(%s)", stderr.String(), group.Exit())
	}
}

// startWhenPossible starts a command. While the machine lacks descriptors, processes or memory, or the program is
// being written, it tries again: the job isn't at fault.
func startWhenPossible(ctx context.Context, c procgroup.Command, log run.Output) (*procgroup.Group, error) {
	for {
		group, err := procgroup.Start(c)
		if number, ok := errors.AsType[syscall.Errno](err); !ok || !number.Temporary() && number != syscall.ENOMEM && number != syscall.ETXTBSY {
			return group, err
		}
		log.WriteLine(err.Error()+"; trying again", "")
		if err := clock.RealSleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// sdkStart begins the line that each release of the public SDK prints when a worker starts. As
// a command, such a program would run test_input.json instead of the job.
const sdkStart = "--- Starting Serverless Worker"

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
		case bytes.HasPrefix(line, []byte(sdkStart)):
			return nil, errors.New("the program starts a worker on the SDK, which needs process instead of command; for jobrunner dev, add import runpod to the file itself")
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
