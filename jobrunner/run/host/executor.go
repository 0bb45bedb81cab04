// Package host runs images on this machine: as local processes, as one process per job,
// or as containers of Docker or Podman. The rules of jobrunner.yaml select one of these for an
// image (docs/reference/jobrunner.md). Images without a rule run as containers. The file can name
// a Kubernetes cluster, which then runs all containers.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

type Config struct {
	// File is the name of the jobrunner.yaml. If it's "", every image without a Handler is a container.
	File     string
	Handlers []Handler // precede the rules of the file
	// DataDir records the run's processes and containers, so that the next run can end them if
	// this run is killed. If DataDir is "", nothing is recorded.
	DataDir string
	// OptionalDataDir starts the executor even if DataDir can't be written.
	OptionalDataDir bool
	// NoContainers switches containers off if there is no File.
	NoContainers bool
	// OpenCluster connects to the cluster that File names. If it's nil, File can't name one.
	OpenCluster func(context.Context, run.ClusterConfig) (run.Cluster, error)
	Logger      *slog.Logger
}

// Executor runs images, except built-in ones, on this machine or in a cluster.
type Executor struct {
	file     string
	rules    []rule
	engines  *engines
	cluster  run.Cluster // nil if containers run on this machine
	register *procgroup.Register
	scratch  string // folder for secrets while a container starts; if empty, the system's temporary folder
	log      *slog.Logger
}

var _ run.PodPrograms = (*Executor)(nil)

const (
	registerFolder = "processes"
	scratchFolder  = "scratch"
)

// New reads the file, finds container engines, and removes the processes and containers of
// killed runs. An error in the file begins with file:line.
func New(ctx context.Context, c Config) (*Executor, error) {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	e := &Executor{file: c.File, log: c.Logger}
	engine, cluster, err := e.readRules(c)
	if err != nil {
		return nil, err
	}
	scratch, err := e.openRegister(ctx, c)
	if err != nil {
		return nil, err
	}
	if e.engines, err = findEngines(ctx, engine, e.register); err != nil {
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

// readRules sets the rules, and returns the engine and the cluster that the configuration names.
func (e *Executor) readRules(c Config) (engine scalar, cluster *run.ClusterSettings, err error) {
	for _, h := range c.Handlers {
		r, err := h.rule()
		if err != nil {
			return engine, nil, err
		}
		e.rules = append(e.rules, r)
	}
	if c.NoContainers {
		engine.Value = noEngine
	}
	if c.File == "" {
		return engine, nil, nil
	}
	settings, err := readFile(c.File)
	if err != nil {
		return engine, nil, err
	}
	e.rules, engine = append(e.rules, settings.Rules...), settings.Engine
	if settings.Kubernetes != nil {
		engine.Value = noEngine
	}
	return engine, settings.Kubernetes, nil
}

// openRegister opens the register of this run, and returns the scratch folder of all runs.
func (e *Executor) openRegister(ctx context.Context, c Config) (scratch string, err error) {
	dir := ""
	if c.DataDir != "" {
		dir, scratch = filepath.Join(c.DataDir, registerFolder), filepath.Join(c.DataDir, scratchFolder)
	}
	if e.register, err = procgroup.OpenRegister(dir); err != nil && c.OptionalDataDir {
		e.log.WarnContext(ctx, "if this run is killed, the next one does not end its containers", "error", err)
		scratch = ""
		e.register, err = procgroup.OpenRegister("")
	}
	if err == nil && scratch != "" {
		e.scratch = filepath.Join(scratch, e.register.Run())
	}
	return scratch, err
}

// Close ends the run. All workers must have ended.
func (e *Executor) Close() error {
	if e.engines != nil {
		e.engines.close()
	}
	if e.cluster != nil && e.cluster.Close() {
		e.register.Keep()
	}
	if e.scratch == "" {
		return e.register.Close()
	}
	return errors.Join(os.RemoveAll(e.scratch), e.register.Close())
}

// cleanKilledRuns ends what killed runs left. If an engine doesn't answer, the next start tries again.
func (e *Executor) cleanKilledRuns(ctx context.Context, scratch string) error {
	killedRuns, err := e.register.KilledRuns()
	if err != nil {
		return err
	}
	for _, r := range killedRuns {
		processes := r.Kill()
		containers, err := e.removeContainers(ctx, r)
		if processes+containers > 0 {
			e.log.WarnContext(ctx, "the workers of a killed run have been ended", "processes", processes, "containers", containers)
		}
		if err == nil {
			err = errors.Join(os.RemoveAll(filepath.Join(scratch, r.ID)), r.Forget())
		}
		if err != nil {
			e.log.WarnContext(ctx, "containers of a killed run may be left; the next start tries again", "error", err)
		}
	}
	return nil
}

func (e *Executor) removeContainers(ctx context.Context, killed procgroup.KilledRun) (removed int, err error) {
	// Each note is the path of an engine, or onKubernetes.
	paths := slices.DeleteFunc(slices.Clone(killed.Notes), func(note string) bool { return note == onKubernetes })
	if len(paths) < len(killed.Notes) {
		if e.cluster == nil {
			return 0, fmt.Errorf("they are Pods, and jobrunner.yaml names no cluster (executor: %s)", onKubernetes)
		}
		if removed, err = e.cluster.RemoveRun(ctx, killed.ID); err != nil {
			return removed, err
		}
	}
	containers, err := e.engines.removeContainers(ctx, killed.ID, paths)
	return removed + containers, err
}

// imageForm is the syntax of an image's name. It keeps options out of an engine's command line.
var imageForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._/:@-]*$`)

// Program resolves an image with the first matching rule. It may wait for a probe of the engines.
func (e *Executor) Program(image string) (run.Program, error) {
	for _, r := range e.rules {
		if !r.matches(image) {
			continue
		}
		switch {
		case r.handle != nil:
			return run.Program{Handle: r.handle, FollowsClock: true}, nil
		case r.Process != nil:
			return run.Program{Start: e.startProcess(r.Process), Check: r.Process.checkTemplate, Folder: r.Process.Dir.Value, Publish: anyPort}, nil
		case r.Command != nil:
			return run.Program{Handle: e.handler(r.Command), Check: r.Command.checkTemplate}, nil
		}
		return e.containerProgram(image, r.Container)
	}
	program, err := e.containerProgram(image, &containerSettings{})
	if err == nil {
		return program, nil
	}
	rule := "there is no jobrunner.yaml with a rule for it"
	if e.file != "" {
		rule = "no rule of " + e.file + " matches it"
	}
	return program, fmt.Errorf("nothing on this machine runs the image %s. Add a rule (docs/reference/jobrunner.md) and restart the jobrunner, or start Docker or Podman: %s, and %w",
		image, rule, err)
}

func (e *Executor) containerProgram(image string, s *containerSettings) (run.Program, error) {
	if !imageForm.MatchString(image) {
		return run.Program{}, fmt.Errorf("invalid image %q: expected the name of a container's image", image)
	}
	if e.cluster != nil {
		return run.Program{Start: e.startInCluster(s), Publish: samePort, OwnAddress: true}, nil
	}
	engine, err := e.engines.firstUsable()
	if err != nil {
		return run.Program{}, err
	}
	program := run.Program{Start: e.startContainer(engine, s), Publish: anyPort, Network: e.clusterNetwork(engine)}
	switch s.Network.Value {
	case hostNetwork:
		program.Publish, program.Network = samePort, nil
	case noNetwork:
		program.Publish, program.Network = nil, refuseNetwork
	}
	return program, nil
}

// anyPort publishes a port at a free port of this machine.
func anyPort(ctx context.Context, _ int) (int, error) { return run.FreePort(ctx) }

// samePort publishes a port under its own number.
func samePort(_ context.Context, private int) (int, error) { return private, nil }

// Describe describes what runs images here, in lines.
func (e *Executor) Describe() []string {
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
		local = []string{e.file + ": " + cmp.Or(strings.Join(local, ", "), "no rules")}
	}
	if e.cluster != nil {
		return append(local, "containers: "+e.cluster.String())
	}
	return append(local, e.engines.describe()...)
}

func (e *Executor) HasRules() bool { return len(e.rules) > 0 }

// LacksEngine reports whether containers should run on this machine, but no engine works.
func (e *Executor) LacksEngine() bool {
	return e.cluster == nil && !e.engines.disabled && len(e.engines.usable()) == 0
}
