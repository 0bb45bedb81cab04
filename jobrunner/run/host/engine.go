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
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

// How long an engine's answers are waited for, and when one that could not be
// used is asked again.
const (
	probeTimeout      = 5 * time.Second
	backgroundTimeout = 20 * time.Second // on the side, where nobody waits: a busy podman is slow
	askAgain          = 15 * time.Second
	removing          = 30 * time.Second
)

// engineNames are the command lines that are looked for, the best first.
var engineNames = []string{"docker", "podman"}

const noEngine = "none"

// containerEngine is the command line of docker or podman.
type containerEngine struct {
	path     string
	podman   bool
	register *procgroup.Register
	life     context.Context // ends with the executor
	probes   sync.WaitGroup  // on the side

	mu      sync.Mutex
	version string // "" where it can't be used
	host    string // of its daemon, where it tells; docker alone
	err     error  // why it can't be used
	probing bool
	next    time.Time // when it is worth asking again
}

// engines are those of this machine.
type engines struct {
	all []*containerEngine
	off bool
	end context.CancelFunc
}

// close ends what is under way on the side.
func (es *engines) close() {
	if es.end != nil {
		es.end()
	}
	for _, e := range es.all {
		e.probes.Wait()
	}
}

// findEngines looks for command lines and asks each whether it works. A wish is
// the name or path of one, "none", or "" for what there is.
func findEngines(ctx context.Context, wish text, register *procgroup.Register) (*engines, error) {
	if wish.Value == noEngine {
		return &engines{off: true}, nil
	}
	names := engineNames
	if wish.Value != "" {
		names = []string{wish.Value}
	}
	var found engines
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	found.end = end
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path) // another run may start in another folder
		}
		switch {
		case err == nil:
			found.all = append(found.all, newEngine(life, path, register))
		case wish.Value != "":
			end()
			return &engines{}, configErrorf(wish.Line, "there is no container engine %s: engine is the name or path of docker's or podman's command line, or %s", name, noEngine)
		}
	}
	var asked sync.WaitGroup
	for _, e := range found.all {
		asked.Go(func() { e.probe(ctx, probeTimeout) })
	}
	asked.Wait()
	return &found, nil
}

func newEngine(life context.Context, path string, register *procgroup.Register) *containerEngine {
	return &containerEngine{path: path, podman: strings.Contains(filepath.Base(path), "podman"), register: register, life: life}
}

var errNoEngine = errors.New("there is no container engine: neither docker nor podman is on PATH")

// usable is the first engine that works. It doesn't wait: one that didn't work
// is asked again meanwhile, and answers with the next call.
func (es *engines) usable() (*containerEngine, error) {
	switch {
	case es.off:
		return nil, errors.New("containers are switched off (engine: none)")
	case len(es.all) == 0:
		return nil, errNoEngine
	}
	var why []string
	for _, e := range es.all {
		err := e.state()
		if err == nil {
			return e, nil
		}
		why = append(why, err.Error())
	}
	return nil, errors.New("no container engine works: " + strings.Join(why, "; "))
}

func (es *engines) describe() (lines []string) {
	switch {
	case es.off:
		return []string{"containers: off"}
	case len(es.all) == 0:
		return []string{"containers: neither docker nor podman is on PATH"}
	}
	for _, e := range es.all {
		e.mu.Lock()
		if e.err != nil {
			lines = append(lines, "containers: "+e.err.Error())
		} else {
			lines = append(lines, fmt.Sprintf("containers: %s %s (%s)", e.name(), e.version, e.path))
		}
		e.mu.Unlock()
	}
	return lines
}

// absent reports that containers are not switched off, and no engine runs them.
func (es *engines) absent() bool {
	if es.off {
		return false
	}
	for _, e := range es.all {
		e.mu.Lock()
		works := e.err == nil
		e.mu.Unlock()
		if works {
			return false
		}
	}
	return true
}

// removeContainers removes the containers of a run that was killed, by any engine that it
// used.
func (es *engines) removeContainers(ctx context.Context, run procgroup.Left) (removed int, err error) {
	for _, path := range run.Notes {
		e := newEngine(ctx, path, nil)
		ctx, cancel := context.WithTimeout(ctx, removing)
		ids, failed := e.cli(ctx, "ps", "--all", "--quiet", "--filter", "label="+runLabel+"="+run.Run)
		if all := strings.Fields(ids); failed == nil && len(all) > 0 {
			if _, failed = e.cli(ctx, append([]string{"rm", "--force"}, all...)...); failed == nil {
				removed += len(all)
			}
		}
		if failed == nil {
			failed = e.removeNetworks(ctx, runLabel+"="+run.Run)
		}
		cancel()
		err = errors.Join(err, failed)
	}
	return removed, err
}

func (e *containerEngine) name() string { return filepath.Base(e.path) }

// state is why the engine can't be used, as far as is known.
func (e *containerEngine) state() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil && time.Now().After(e.next) {
		e.probeInBackground()
	}
	return e.err
}

// probe finds out whether the engine works.
func (e *containerEngine) probe(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	question := []string{"version", "--format", "{{.Server.Version}}"}
	if e.podman { // has no daemon where it is at home, and then no server
		question = []string{"info", "--format", "{{.Version.Version}}"}
	}
	version, err := e.cli(ctx, question...)
	host := ""
	if err == nil && !e.podman {
		// A context tells where the daemon is, and is lost with the configuration
		// that a login needs. Old ones know no contexts, and need none.
		host, _ = e.cli(ctx, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.version, e.host, e.err = strings.TrimSpace(version), strings.TrimSpace(host), err
	e.probing, e.next = false, time.Now().Add(askAgain)
}

// markUnusable says that the engine, which worked, may not any more.
func (e *containerEngine) markUnusable() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.probeInBackground()
	}
}

// probeInBackground is called with mu held.
func (e *containerEngine) probeInBackground() {
	if !e.probing && e.life.Err() == nil {
		e.probing = true
		e.probes.Go(func() { e.probe(e.life, backgroundTimeout) })
	}
}

// cli runs a command of the engine, and answers its stdout. The error is the
// last line of its stderr.
func (e *containerEngine) cli(ctx context.Context, args ...string) (string, error) {
	return e.cliWith(ctx, nil, nil, args...)
}

// cliWith is cli with more environment, and with a log of what it writes to
// stderr.
func (e *containerEngine) cliWith(ctx context.Context, env []string, log io.Writer, args ...string) (string, error) {
	var stdout bytes.Buffer
	stderr := &tail{most: maxTail}
	c := procgroup.Command{Path: e.path, Args: append([]string{e.path}, args...), Env: append(e.environment(), env...), Stdout: &stdout, Output: stderr, Register: e.register}
	if log != nil {
		c.Output = io.MultiWriter(stderr, log)
	}
	group, err := procgroup.Start(c)
	if err != nil {
		return "", fmt.Errorf("%s: %w", e.name(), err)
	}
	stop := context.AfterFunc(ctx, group.Signal)
	<-group.Done()
	stop()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s does not answer: %s took too long or was stopped: %w", e.name(), args[0], ctx.Err())
	case group.Succeeded():
		return stdout.String(), nil
	}
	why := stderr.String()
	if i := strings.LastIndexByte(why, '\n'); i >= 0 {
		why = why[i+1:]
	}
	if why == "" {
		why = group.Exit()
	}
	return "", fmt.Errorf("%s: %s", e.name(), why)
}

// environment is the jobrunner's, since an engine is set up by it, without what
// is the jobrunner's own, its key above all.
func (e *containerEngine) environment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GPUCLOUD_") {
			env = append(env, v)
		}
	}
	return env
}
