package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kballard/go-shellquote"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// sdkJobs is where releases 1.7.12 to 1.9 of the public SDK keep, in the folder
// that they are started in, which jobs they run. A worker that was killed leaves
// its job there, and the next one would take it for its own and ask for no other.
// One that runs has its jobs in mind, too.
const sdkJobs = ".runpod_jobs.pkl"

// startProcess makes a worker of a command that takes its jobs over the worker
// protocol.
func (e *Executor) startProcess(l *localSettings) func(context.Context, worker.Spec) (worker.Process, error) {
	return func(_ context.Context, s worker.Spec) (worker.Process, error) {
		c, err := l.command(s)
		if err != nil {
			return nil, err
		}
		// What cannot be removed is only of use to some releases of the SDK.
		_ = os.Remove(filepath.Join(c.Dir, sdkJobs))
		c.Register, c.Output = e.register, s.Log
		group, err := procgroup.Start(c)
		if err != nil {
			return nil, err
		}
		return process{group}, nil
	}
}

type process struct{ *procgroup.Group }

func (p process) Usage() worker.Usage { return worker.Usage(p.Group.Usage()) }

// command is what a worker or a job of it is started with.
func (l *localSettings) command(s worker.Spec, env ...string) (c procgroup.Command, err error) {
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

// argv are a command's words: those of the rule, and what counts of the
// template's.
func (l *localSettings) argv(c store.Container) (argv []string, err error) {
	for _, word := range l.Run {
		argv = append(argv, word.Value)
	}
	if l.Template.Value == "" {
		return argv, nil
	}
	if l.Template.Value == templateCommand && len(c.Entrypoint) > 0 {
		argv = append([]string(nil), c.Entrypoint...)
	}
	words, err := words(c.Args)
	if argv = append(argv, words...); err == nil && len(argv) == 0 {
		err = fmt.Errorf("there is no command for the image %s: the template has neither entrypoint nor args, and its rule no run", c.Image)
	}
	return argv, err
}

// words are the arguments of a template, which are quoted as in a shell.
func words(args string) ([]string, error) {
	words, err := shellquote.Split(args)
	if err != nil {
		return nil, fmt.Errorf("the template's args can't be split into words: %w", err)
	}
	return words, nil
}

// findProgram is the file of a program: a path is seen from the command's folder, a
// name is looked for on the PATH of the rule or, without one, the jobrunner's. A
// template's PATH doesn't count: its author need not know this machine.
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
