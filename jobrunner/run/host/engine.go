package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

const (
	probeTimeout      = 5 * time.Second
	backgroundTimeout = 20 * time.Second // for later probes, in the background: a busy Podman is slow
	removeTimeout     = 30 * time.Second
	reprobeInterval   = 5 * time.Second // for an engine that doesn't work
)

// engineNames are the CLIs of engines, best first.
var engineNames = []string{"docker", "podman"}

const noEngine = "none"

// containerEngine is the CLI of docker or podman.
type containerEngine struct {
	path       string
	podman     bool
	register   *procgroup.Register
	life       context.Context // ends with the executor
	firstProbe sync.WaitGroup
	probes     sync.WaitGroup // later probes, in the background

	mu        sync.Mutex
	version   string // "" if it can't be used
	host      string // of Docker's daemon, if known
	err       error  // why it can't be used
	probing   bool
	nextProbe time.Time
}

type engines struct {
	all      []*containerEngine
	disabled bool // containers are switched off
	end      context.CancelFunc
}

func (es *engines) close() {
	if es.end != nil {
		es.end()
	}
	for _, e := range es.all {
		e.firstProbe.Wait()
		e.probes.Wait()
	}
}

// findEngines finds CLIs and starts to probe each. The setting is a name, a path, "none", or "" for all.
func findEngines(ctx context.Context, setting scalar, register *procgroup.Register) (*engines, error) {
	if setting.Value == noEngine {
		return &engines{disabled: true}, nil
	}
	names := engineNames
	if setting.Value != "" {
		names = []string{setting.Value}
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	es := engines{end: end}
	for _, name := range names {
		path, err := exec.LookPath(name)
		switch {
		case err == nil:
			es.all = append(es.all, newEngine(life, path, register))
		case setting.Value != "":
			end()
			return &engines{}, configErrorf(setting.Line, "there is no container engine %s: engine is the name or path of docker's or podman's CLI, or %s", name, noEngine)
		}
	}
	for _, e := range es.all {
		e.firstProbe.Go(func() { e.probe(ctx, probeTimeout) })
	}
	return &es, nil
}

func newEngine(life context.Context, path string, register *procgroup.Register) *containerEngine {
	return &containerEngine{path: path, podman: strings.Contains(filepath.Base(path), "podman"), register: register, life: life}
}

var errNoEngine = errors.New("there is no container engine: neither docker nor podman is on PATH")

// firstUsable returns the first engine that works.
func (es *engines) firstUsable() (*containerEngine, error) {
	switch {
	case es.disabled:
		return nil, errors.New("containers are switched off (engine: none)")
	case len(es.all) == 0:
		return nil, errNoEngine
	}
	var reasons []string
	for _, e := range es.all {
		err := e.problem()
		if err == nil {
			return e, nil
		}
		reasons = append(reasons, err.Error())
	}
	return nil, errors.New("no container engine works: " + strings.Join(reasons, "; "))
}

// usable returns the engines that work.
func (es *engines) usable() []*containerEngine {
	return slices.DeleteFunc(slices.Clone(es.all), func(e *containerEngine) bool { return e.problem() != nil })
}

func (es *engines) describe() (lines []string) {
	switch {
	case es.disabled:
		return []string{"containers: off"}
	case len(es.all) == 0:
		return []string{"containers: neither docker nor podman is on PATH"}
	}
	for _, e := range es.all {
		if err := e.problem(); err != nil {
			lines = append(lines, "containers: "+err.Error())
			continue
		}
		e.mu.Lock()
		lines = append(lines, fmt.Sprintf("containers: %s %s (%s)", e.name(), e.version, e.path))
		e.mu.Unlock()
	}
	return lines
}

// removeContainers removes the containers and networks of a killed run from the engines that it used.
func (es *engines) removeContainers(ctx context.Context, runID string, paths []string) (removed int, err error) {
	for _, path := range paths {
		e := newEngine(ctx, path, nil)
		ctx, cancel := context.WithTimeout(ctx, removeTimeout)
		n, removeErr := e.removeListed(ctx, runID, []string{"ps", "--all"}, "rm", "--force", "--volumes")
		if removed += n; removeErr == nil {
			_, removeErr = e.removeListed(ctx, runID, []string{"network", "ls"}, "network", "rm")
		}
		cancel()
		err = errors.Join(err, removeErr)
	}
	return removed, err
}

// removeListed removes the objects of a run that the command list lists, and returns their number.
func (e *containerEngine) removeListed(ctx context.Context, runID string, list []string, remove ...string) (removed int, err error) {
	text, err := e.runCLI(ctx, append(list, "--quiet", "--filter", "label="+runLabel+"="+runID)...)
	ids := strings.Fields(text)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	_, err = e.runCLI(ctx, append(remove, ids...)...)
	return len(ids), err
}

func (e *containerEngine) name() string { return filepath.Base(e.path) }

// problem returns why the engine can't be used according to its last probe, or nil. It waits for the first probe.
// It starts further probes of an engine that doesn't work, and waits for each at most for probeTimeout.
func (e *containerEngine) problem() error {
	e.firstProbe.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil && time.Now().After(e.nextProbe) && e.life.Err() == nil {
		e.nextProbe = time.Now().Add(backgroundTimeout) // other callers don't wait
		done := make(chan struct{})
		e.probes.Go(func() {
			e.probe(e.life, backgroundTimeout)
			close(done)
		})
		e.mu.Unlock()
		select {
		case <-done:
		case <-time.After(probeTimeout):
		}
		e.mu.Lock()
	}
	return e.err
}

// probe finds out whether the engine works.
func (e *containerEngine) probe(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	part := "Server"
	if e.podman { // It has no daemon. podman info would check nothing else, and queries dpkg for 0.3 s.
		part = "Client"
	}
	version, err := e.runCLI(ctx, "version", "--format", "{{."+part+".Version}}")
	host := ""
	if err == nil && !e.podman {
		// Docker's current context has the daemon's address. A pull with a login uses another configuration
		// folder, which lacks the context, and gets the address in DOCKER_HOST. Old releases have no contexts.
		host, _ = e.runCLI(ctx, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.version, e.host, e.err = strings.TrimSpace(version), strings.TrimSpace(host), err
	e.probing, e.nextProbe = false, time.Now().Add(reprobeInterval)
}

// reprobe probes an engine that worked: it may no longer work.
func (e *containerEngine) reprobe() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil && !e.probing && e.life.Err() == nil {
		e.probing = true
		e.probes.Go(func() { e.probe(e.life, backgroundTimeout) })
	}
}

// runCLI runs a command of the engine and returns its stdout. The error is the last line of its stderr.
func (e *containerEngine) runCLI(ctx context.Context, args ...string) (string, error) {
	return e.runCLIWith(ctx, nil, nil, args...)
}

// uninterrupted returns a context that ends removeTimeout after ctx.
func uninterrupted(ctx context.Context) (context.Context, func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(removeTimeout, cancel) })
	return late, func() {
		stop()
		cancel()
	}
}

var dockerRestart = run.Exit{Text: "a restart of Docker", Restart: true}

// dockerIsDown reports whether an error of inspect means that Docker doesn't run.
func (c *container) dockerIsDown(err error) bool {
	return !c.engine.podman && !errors.Is(err, context.DeadlineExceeded) && !c.isGone()
}

// isGone reports whether the engine answers and doesn't have the container.
func (c *container) isGone() bool {
	ctx, cancel := context.WithTimeout(context.Background(), backgroundTimeout)
	defer cancel()
	found, err := c.exists(ctx)
	return err == nil && !found
}

// runCLIWith is runCLI with additional variables and a log of its stderr.
func (e *containerEngine) runCLIWith(ctx context.Context, env []string, log io.Writer, args ...string) (string, error) {
	var stdout bytes.Buffer
	stderr := &tail{maxBytes: maxTail}
	c := procgroup.Command{Path: e.path, Args: append([]string{e.path}, args...), Env: append(e.environment(), env...), Stdout: &stdout, Output: stderr, Register: e.register}
	if log != nil {
		c.Output = io.MultiWriter(stderr, log)
	}
	group, err := procgroup.Start(c)
	if err != nil {
		return "", fmt.Errorf("%s: %w", e.name(), err)
	}
	stop := context.AfterFunc(ctx, group.KillNoWait)
	<-group.Done()
	stop()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s does not answer: %s took too long or was stopped: %w", e.name(), args[0], ctx.Err())
	case group.Succeeded():
		return stdout.String(), nil
	}
	reason := stderr.String()
	reason = reason[strings.LastIndexByte(reason, '\n')+1:]
	return "", fmt.Errorf("%s: %s", e.name(), cmp.Or(reason, group.Exit()))
}

// environment returns the jobrunner's variables for an engine, except GPUCLOUD_… such as the API key.
func (e *containerEngine) environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GPUCLOUD_") })
}
