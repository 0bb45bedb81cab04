package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// sdkJobs is the file in the working folder where releases 1.7.12 to 1.9 of the public SDK
// list the jobs that they run. A killed worker leaves its job there. The next worker would
// believe that it runs that job and request no other. A running worker doesn't need the
// file: it also has its jobs in memory.
const sdkJobs = ".runpod_jobs.pkl"

// startProcess starts a worker or a pod as a local process.
func (e *Executor) startProcess(l *localSettings) func(context.Context, run.Spec) (run.Process, error) {
	return func(_ context.Context, s run.Spec) (run.Process, error) {
		c, err := l.command(s)
		if err != nil {
			return nil, err
		}
		if s.Pod == nil {
			_ = os.Remove(filepath.Join(c.Dir, sdkJobs)) // usually it doesn't exist
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

func (p process) Exit() run.Exit   { return run.Exit{Text: p.Group.Exit(), OK: p.Succeeded()} }
func (p process) Usage() run.Usage { return run.Usage(p.Group.Usage()) }
func (p process) Address() string  { return "" }

func (p process) Stop(grace time.Duration) {
	if grace > 0 {
		p.Terminate()
		select {
		case <-p.Done():
		case <-time.After(grace): // processes use real time
		}
	}
	p.Kill()
}

// command returns the command of a worker, a pod or a job.
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

// argv returns the words of a command: the rule's, and the words that the rule takes from
// the template.
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
	if argv = append(argv, command.Cmd...); err == nil && len(argv) == 0 {
		err = fmt.Errorf("there is no command for the image %s: the template has neither entrypoint nor args, and its rule no run", c.Image)
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
	if own, ok := l.Env["PATH"]; ok {
		path = own.Value
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("there is no program %s on PATH: install it, or name it with its folder (./%s is one in dir)", name, name)
}
