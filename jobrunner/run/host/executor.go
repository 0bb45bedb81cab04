// Package host runs worker images as local processes, as one process per
// job, or as containers. A file says which image is what (docs/reference/jobrunner.md);
// images that it doesn't name are containers.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Config says what an executor stands on.
type Config struct {
	// File names the executors of images. Empty is no file: every image is a
	// container.
	File     string
	Handlers []Handler // come before the rules of the file
	// DataDir is where a later run finds out what this one left, if it is killed.
	// Empty: it doesn't.
	DataDir string
	// Optional says that the jobrunner starts although nothing can be kept in
	// DataDir.
	Optional bool
	// NoContainers switches containers off where no File says which engine runs them.
	NoContainers bool
	// OpenCluster connects to the cluster that the file names; nil: it can't name one.
	OpenCluster func(context.Context, ClusterConfig) (Cluster, error)
	Logger      *slog.Logger
}

// Executor is the worker.Programs of this machine, without those that are
// built in.
type Executor struct {
	file     string
	rules    []rule
	engines  *engines
	cluster  Cluster // nil: containers run on this machine
	register *procgroup.Register
	scratch  string // a folder for what only a start needs; empty: the system's
	log      *slog.Logger
}

var _ worker.Programs = (*Executor)(nil)

// Folders of the data folder.
const (
	registerFolder = "processes"
	scratchFolder  = "scratch"
)

// New reads the file, looks for container engines, and ends the processes and
// containers that killed runs left. An error of the file begins with file:line.
func New(ctx context.Context, c Config) (*Executor, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Executor{file: c.File, log: c.Logger}
	for _, h := range c.Handlers {
		r, err := h.rule()
		if err != nil {
			return nil, err
		}
		e.rules = append(e.rules, r)
	}
	var wish text
	if c.NoContainers {
		wish.Value = noEngine
	}
	var cluster *kubernetesSettings
	if c.File != "" {
		settings, err := readFile(c.File)
		if err != nil {
			return nil, err
		}
		e.rules, wish = append(e.rules, settings.Rules...), settings.Engine
		if cluster = settings.Kubernetes; cluster != nil {
			wish.Value = noEngine
		}
	}
	dir, scratch := "", ""
	if c.DataDir != "" {
		dir, scratch = filepath.Join(c.DataDir, registerFolder), filepath.Join(c.DataDir, scratchFolder)
	}
	var err error
	if e.register, err = procgroup.OpenRegister(dir); err != nil && c.Optional {
		e.log.WarnContext(ctx, "if this run is killed, the next one does not end its containers", "error", err)
		scratch = ""
		e.register, err = procgroup.OpenRegister("")
	}
	if err != nil {
		return nil, err
	}
	if scratch != "" {
		e.scratch = filepath.Join(scratch, e.register.Run())
	}
	if e.engines, err = findEngines(ctx, wish, e.register); err != nil {
		return nil, errors.Join(fmt.Errorf("%s:%w", c.File, err), e.Close())
	}
	if err := e.openCluster(ctx, cluster, c.OpenCluster); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.File, err), e.Close())
	}
	if err := e.cleanKilledRuns(ctx, scratch); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Close ends the run. All workers must have ended.
func (e *Executor) Close() error {
	if e.engines != nil {
		e.engines.close()
	}
	if e.cluster != nil {
		e.cluster.Close()
	}
	if e.scratch == "" {
		return e.register.Close()
	}
	return errors.Join(os.RemoveAll(e.scratch), e.register.Close())
}

// cleanKilledRuns ends what killed runs left. What can't be ended now, since its engine
// doesn't answer, is left to the next start.
func (e *Executor) cleanKilledRuns(ctx context.Context, scratch string) error {
	left, err := e.register.Left()
	if err != nil {
		return err
	}
	for _, run := range left {
		processes := run.Kill()
		containers, err := e.removeContainers(ctx, run)
		if processes+containers > 0 {
			e.log.WarnContext(ctx, "workers of a run that was killed are ended", "processes", processes, "containers", containers)
		}
		if err == nil {
			err = errors.Join(os.RemoveAll(filepath.Join(scratch, run.Run)), run.Forget())
		}
		if err != nil {
			e.log.WarnContext(ctx, "containers of a run that was killed may be left; the next start looks again", "error", err)
		}
	}
	return nil
}

// removeContainers removes the containers of a run that was killed, and its Pods.
func (e *Executor) removeContainers(ctx context.Context, run procgroup.Left) (removed int, err error) {
	paths := slices.DeleteFunc(slices.Clone(run.Notes), func(note string) bool { return note == onKubernetes })
	if len(paths) < len(run.Notes) {
		if e.cluster == nil {
			return 0, fmt.Errorf("they are Pods, and this start has no cluster (executor: %s)", onKubernetes)
		}
		if removed, err = e.cluster.RemoveRun(ctx, run.Run); err != nil {
			return removed, err
		}
	}
	run.Notes = paths
	containers, err := e.engines.removeContainers(ctx, run)
	return removed + containers, err
}

// imageForm is what an image may be called. It keeps options out of the command
// line of an engine.
var imageForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._/:@-]*$`)

// Program finds the first rule that an image matches; without one it is a
// container. It doesn't wait.
func (e *Executor) Program(image string) (worker.Program, error) {
	for _, r := range e.rules {
		if !r.matches(image) {
			continue
		}
		switch {
		case r.Process != nil:
			return worker.Program{Start: e.startProcess(r.Process), Check: r.Process.checkTemplate, Folder: r.Process.Dir.Value}, nil
		case r.Command != nil:
			return worker.Program{Handle: e.handler(r.Command), Check: r.Command.checkTemplate}, nil
		}
		return e.container(image, r.Container)
	}
	program, err := e.container(image, &containerSettings{})
	if err == nil {
		return program, nil
	}
	return program, e.nothingRuns(image, err)
}

// nothingRuns is the error for an image that no rule has and that is no container for a
// reason.
func (e *Executor) nothingRuns(image string, why error) error {
	rule := "there is no jobrunner.yaml with a rule for it"
	if e.file != "" {
		rule = "no rule of " + e.file + " matches it"
	}
	return fmt.Errorf("nothing on this machine runs the image %s: %s, and %w. Add a rule (docs/reference/jobrunner.md says how) and start the jobrunner again, or get containers to run",
		image, rule, why)
}

func (e *Executor) container(image string, s *containerSettings) (worker.Program, error) {
	if !imageForm.MatchString(image) {
		return worker.Program{}, fmt.Errorf("invalid image %q: expected the name of a container's image", image)
	}
	if e.cluster != nil {
		return worker.Program{Start: e.startInCluster(s), Port: portInCluster}, nil
	}
	engine, err := e.engines.usable()
	if err != nil {
		return worker.Program{}, err
	}
	return worker.Program{Start: e.startContainer(engine, s)}, nil
}

// Engines says, in a line each, what runs images here.
func (e *Executor) Engines() []string {
	var local []string
	if e.file != "" {
		count := map[string]int{}
		for _, r := range e.rules {
			count[r.kind()]++
		}
		for _, kind := range kinds {
			if n := count[kind]; n > 0 {
				local = append(local, fmt.Sprintf("%d × %s", n, kind))
			}
		}
		if local == nil {
			local = []string{"no rules"}
		}
		local = []string{e.file + ": " + strings.Join(local, ", ")}
	}
	if e.cluster != nil {
		return append(local, "containers: "+e.cluster.String())
	}
	return append(local, e.engines.describe()...)
}

// HasRules reports that some images have a rule.
func (e *Executor) HasRules() bool { return len(e.rules) > 0 }

// LacksEngine reports that containers are to run on this machine, and no engine that
// works was found.
func (e *Executor) LacksEngine() bool { return e.cluster == nil && e.engines.absent() }
