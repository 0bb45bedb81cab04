package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

type container struct {
	engine     *containerEngine
	name       string
	log        io.Writer
	lifecycle  lifecycle
	address    string          // in a private network; "" otherwise
	life       context.Context // ends when the container is removed
	end        context.CancelFunc
	exit       run.Exit                        // set before life ends
	stopping   atomic.Bool                     // the jobrunner stops it
	follower   atomic.Pointer[procgroup.Group] // the command of followLog
	stopFailed atomic.Bool                     // wait must end

	mu             sync.Mutex
	findingProcess bool      // findProcess runs
	pid            int       // of its first process; 0 if unknown
	used           run.Usage // latest measurement
}

// lifecycle waits for and stops a container that is attached to the jobrunner, or detached.
type lifecycle interface {
	// wait returns how the container ended. It passes the output on until then.
	wait(c *container) run.Exit
	// stop makes the container end.
	stop(c *container, grace time.Duration)
}

// startContainer returns a function that starts workers attached and pods detached. One
// command creates a container and another starts it, so that the container can be removed by
// its name if the start fails.
func (e *Executor) startContainer(engine *containerEngine, settings *containerSettings) func(context.Context, run.Spec) (run.Process, error) {
	return func(ctx context.Context, s run.Spec) (run.Process, error) {
		c, err := e.createContainer(ctx, engine, settings, s)
		if err == nil {
			err = e.runContainer(ctx, c, s)
		}
		if err != nil {
			engine.reprobe()
			return nil, err
		}
		go c.supervise()
		return c, nil
	}
}

func (e *Executor) createContainer(ctx context.Context, engine *containerEngine, settings *containerSettings, s run.Spec) (*container, error) {
	scratch, err := e.ScratchFolder()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch) // it contains secrets
	s.PullAlways = settings.Pull.Value == pullAlways
	if err := engine.pull(ctx, scratch, s); err != nil {
		return nil, err
	}
	if s.Pod != nil {
		if err := engine.prepareForPod(ctx, s); err != nil {
			return nil, err
		}
	}
	c := newContainer(engine, "gpucloud-"+invalidInName.ReplaceAllString(s.ID, "-")+"-"+uuid.NewString()[:8], s.Log)
	args, env, err := containerSpec{settings, s, c.name, e.register.Run(), engine.podman, runtime.GOOS}.args(scratch)
	if err != nil {
		return nil, err
	}
	if s.FolderID() == "" { // no later run adopts this container. If this run is killed, the next one removes it, and needs the engine's path
		if err := e.register.Note(engine.path); err != nil {
			return nil, err
		}
	}
	// If the start is cancelled, it still waits: the daemon would go on, and create the container after its removal.
	creation, cancel := uninterrupted(ctx)
	defer cancel()
	if _, err = engine.runCLIWith(creation, env, nil, args...); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.remove() // it may exist in spite of the error
		return nil, fmt.Errorf("creating a container of %s: %w", s.Image, err)
	}
	return c, nil
}

// runContainer starts a container, and removes it if that fails. The command runs in the scratch folder: if
// the container runs out of memory, its monitor, a child of Podman, creates a file in the command's folder.
func (e *Executor) runContainer(ctx context.Context, c *container, s run.Spec) (err error) {
	if s.Pod == nil {
		var group *procgroup.Group
		group, err = procgroup.Start(procgroup.Command{
			Path: c.engine.path, Args: []string{c.engine.path, "start", "--attach", c.name}, Env: c.engine.environment(), Dir: e.scratch, Output: s.Log, Register: e.register,
		})
		c.lifecycle = attachedLifecycle{group}
	} else {
		// A Podman that is killed here forgets that it started the container, and removes it without ending its processes.
		begun, cancel := uninterrupted(ctx)
		defer cancel()
		c.lifecycle, err = detachedLifecycle{log: s.Log}, cmp.Or(c.engine.start(begun, e.scratch, c.name), ctx.Err())
	}
	if err != nil {
		c.remove()
		return fmt.Errorf("starting a container of %s: %w", s.Image, err)
	}
	if s.Pod != nil {
		c.findAddress(ctx, s.Pod.Network)
	}
	return nil
}

func newContainer(engine *containerEngine, name string, log io.Writer) *container {
	life, end := context.WithCancel(context.Background())
	return &container{engine: engine, name: name, log: log, life: life, end: end}
}

// ScratchFolder makes a folder that only this user can read. If this run is killed, the next one with
// the same data folder removes it, except on Windows.
func (e *Executor) ScratchFolder() (string, error) {
	if e.scratch != "" {
		if err := os.MkdirAll(e.scratch, 0o700); err != nil {
			return "", fmt.Errorf("creating a temporary folder: %w", err)
		}
	}
	return os.MkdirTemp(e.scratch, "gpucloud-")
}

// invalidInName matches characters that a container's name can't have.
var invalidInName = regexp.MustCompile(`[^a-zA-Z0-9_.-]+`)

// supervise waits for the container's end and removes it.
func (c *container) supervise() {
	c.exit = c.lifecycle.wait(c)
	c.remove()
	c.end()
}

func (c *container) Done() <-chan struct{} { return c.life.Done() }
func (c *container) Exit() run.Exit        { return c.exit }
func (c *container) Address() string       { return c.address }

func (c *container) Stop(grace time.Duration) {
	if c.life.Err() != nil {
		return
	}
	c.stopping.Store(true)
	c.lifecycle.stop(c, grace)
	<-c.Done()
}

// attachedLifecycle is the lifecycle of a worker. Its output comes from the command that started it,
// and it is stopped by killing that command and removing the container.
type attachedLifecycle struct{ command *procgroup.Group }

func (a attachedLifecycle) stop(c *container, _ time.Duration) {
	if c.engine.podman { // a podman start that is killed too early forgets the container, and its monitor runs on
		c.remove()
	}
	a.command.KillNoWait()
}

func (a attachedLifecycle) wait(c *container) run.Exit {
	<-a.command.Done()
	code := a.command.Code()
	if code <= 0 || c.stopping.Load() {
		return run.Exit{Text: a.command.Exit(), OK: code == 0}
	}
	s, err := c.inspect(probeTimeout) // if the engine doesn't answer, oom stays false
	if err != nil && c.dockerIsDown(err) {
		return dockerRestart
	}
	if code == statusKilled && !s.oom {
		// Podman doesn't always report an OOM kill, and Docker doesn't for children of the container.
		return run.Exit{Text: fmt.Sprintf("exit status %d: killed by %s", code, a.command.KilledText())}
	}
	return run.Exit{Text: procgroup.StatusText(code, s.oom)}
}

// statusKilled is the exit status of a container that was killed by SIGKILL.
const statusKilled = 128 + 9

// detachedLifecycle is the lifecycle of a pod. The container is a child of the engine, so it survives
// a jobrunner that is killed, and the next run adopts it.
type detachedLifecycle struct {
	log      run.Output
	lastLine time.Time // time of the last line that is already logged
}

// followPause is the pause before a detached container is inspected again, in real time, because
// engines don't follow the deployment's clock.
const followPause = time.Second

func (d detachedLifecycle) wait(c *container) run.Exit {
	dockerWasDown := false // since the container was last seen running
	for last := d.lastLine; ; {
		last = c.followLog(d.log, last)
		if c.stopFailed.Load() { // supervise removes it by force
			return run.Exit{Text: run.Stopped}
		}
		s, err := c.inspect(backgroundTimeout)
		switch {
		case err == nil && s.running:
			dockerWasDown = false
		case c.stopping.Load(): // supervise removes it even if it couldn't be inspected
			return run.Exit{Text: run.Stopped, OK: err == nil && s.status == 0}
		case err == nil && dockerWasDown:
			return dockerRestart
		case err == nil:
			return run.Exit{Text: procgroup.StatusText(s.status, s.oom), OK: s.status == 0}
		case c.isGone():
			return run.Exit{Text: "its container was removed, but not by the jobrunner"}
		default:
			dockerWasDown = dockerWasDown || c.dockerIsDown(err)
		}
		time.Sleep(followPause)
	}
}

// stop leaves the grace period to the engine.
func (d detachedLifecycle) stop(c *container, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	args := []string{"kill", c.name}
	if grace > 0 {
		args = []string{"stop", "--time", strconv.Itoa(int(grace / time.Second)), c.name}
	}
	if _, err := c.engine.runCLI(ctx, args...); err != nil {
		c.stopFailed.Store(true)
		if follower := c.follower.Load(); follower != nil {
			follower.KillNoWait() // an engine that hangs doesn't end it
		}
	}
}

// start starts a container that isn't in a process group of the jobrunner: everything that
// a command starts in its group ends with the group.
func (e *containerEngine) start(ctx context.Context, dir, name string) error {
	stderr, err := os.CreateTemp("", "gpucloud-")
	if err != nil {
		return err
	}
	defer func() {
		_ = stderr.Close()
		_ = os.Remove(stderr.Name())
	}()
	cmd := exec.CommandContext(ctx, e.path, "start", name)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, e.environment(), stderr // a pipe would stay open with the container
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(stderr.Name())
		if cause, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n"); cause != "" { // the next line repeats the name
			err = errors.New(cause)
		}
		return fmt.Errorf("%s: %w", e.name(), err)
	}
	return nil
}

// state is a container's state according to the engine.
type state struct {
	running bool
	status  int
	oom     bool // it ran out of memory
}

func (c *container) inspect(timeout time.Duration) (s state, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	text, err := c.engine.runCLI(ctx, "inspect", "--format", "{{.State.Running}} {{.State.ExitCode}} {{.State.OOMKilled}}", c.name)
	if err != nil {
		return s, err
	}
	_, err = fmt.Sscan(text, &s.running, &s.status, &s.oom)
	return s, err
}

func (c *container) exists(ctx context.Context) (bool, error) {
	id, err := c.engine.runCLI(ctx, "ps", "--all", "--quiet", "--filter", "name=^/?"+regexp.QuoteMeta(c.name)+"$")
	return strings.TrimSpace(id) != "", err
}

// findAddress sets the container's address in a network. Without an address, the pod still runs.
func (c *container) findAddress(ctx context.Context, network string) {
	if network == "" {
		return
	}
	text, err := c.engine.runCLI(ctx, "inspect", "--format", fmt.Sprintf("{{with index .NetworkSettings.Networks %q}}{{.IPAddress}}{{end}}", network), c.name)
	if err == nil {
		c.address = strings.TrimSpace(text)
	}
}

// Usage returns the usage of the container's processes, if they are processes of this machine.
func (c *container) Usage() run.Usage {
	if c.life.Err() != nil {
		return run.Usage{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid != 0 {
		c.used.Measure(c.pid)
	} else if !c.findingProcess {
		c.findingProcess = true
		c.engine.probes.Go(c.findProcess)
	}
	return c.used
}

// findProcess asks for the container's first process.
func (c *container) findProcess() {
	ctx, cancel := context.WithTimeout(c.engine.life, probeTimeout)
	defer cancel()
	id, err := c.engine.runCLI(ctx, "inspect", "--format", "{{.State.Pid}}", c.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findingProcess = false
	if err == nil {
		c.pid, _ = strconv.Atoi(strings.TrimSpace(id)) // 0 if the engine names none
	}
}

// remove ends the container and waits until it no longer exists. If the engine doesn't answer, it goes on in the background.
func (c *container) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	err := c.tryRemove(ctx)
	if err == nil {
		return
	}
	_, _ = fmt.Fprintf(c.log, "the container %s could not be removed: trying again, also at the next start of the jobrunner: %v\n", c.name, err)
	c.engine.probes.Go(func() {
		for err != nil && clock.RealSleep(c.engine.life, followPause) == nil {
			err = c.tryRemove(c.engine.life)
		}
		if err != nil {
			c.engine.register.Keep()
		}
	})
}

// tryRemove is remove, but gives up when the engine doesn't answer.
func (c *container) tryRemove(ctx context.Context) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		// The command fails if the container is already gone or being removed.
		_, removeErr := c.engine.runCLI(ctx, "rm", "--force", "--volumes", c.name)
		found, err := c.exists(ctx)
		switch {
		case err == nil && !found:
			return nil
		case ctx.Err() != nil || err != nil:
			return errors.Join(removeErr, err, ctx.Err())
		}
		_ = clock.RealSleep(ctx, pause)
	}
}

// Orphans implements run.PodPrograms. It asks the Kubernetes cluster, or the engines of this machine.
func (e *Executor) Orphans(ctx context.Context, folderID string) (all []run.Orphan) {
	if folderID == "" {
		return nil
	}
	if e.cluster != nil {
		var err error
		if all, err = e.cluster.Orphans(ctx, folderID); err != nil {
			e.log.WarnContext(ctx, "the Pods of an earlier run can't be listed: pods start again, and their old Pods are removed then", "error", err)
		}
	}
	for _, engine := range e.engines.all { // if its first probe took too long, it may still answer
		orphans, _ := engine.orphans(ctx, folderLabel+"="+folderID) // after an error, pods start again, which removes their containers
		all = append(all, orphans...)
	}
	return all
}

// prepareForPod makes the pod's network, and removes the pod's orphans, which are left if the engine
// didn't answer when the deployment started.
func (e *containerEngine) prepareForPod(ctx context.Context, s run.Spec) error {
	if s.Pod.IP == "" { // not a cluster's pod, whose network already exists
		if err := e.makeNetwork(ctx, s.Pod.Network); err != nil {
			return err
		}
	}
	if s.FolderID() == "" {
		return nil
	}
	orphans, err := e.orphans(ctx, podLabel+"="+s.ID)
	for _, orphan := range orphans {
		orphan.Remove()
	}
	return err
}

// orphans returns the containers with a label, newest first.
func (e *containerEngine) orphans(ctx context.Context, label string) (all []run.Orphan, err error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	labelOf := ".Label"
	if e.podman {
		labelOf = "index .Labels"
	}
	text, err := e.runCLI(ctx, "ps", "--all", "--filter", "label="+label, "--format", fmt.Sprintf("{{.Names}} {{%[1]s %[2]q}} {{%[1]s %[3]q}} {{.Status}}", labelOf, podLabel, podGenerationLabel))
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		generation, err := strconv.ParseInt(words[2], 10, 64)
		// Podman says Created, too, if the machine restarted while the container ran. Docker then says Exited (255).
		if err != nil || words[3] == "Created" || !e.podman && strings.Contains(line, " Exited (255) ") {
			generation = -1
		}
		all = append(all, run.Orphan{
			Pod: words[1], Run: generation,
			Adopt: func(log run.Output, mark string) run.Process {
				c := newContainer(e, words[0], log)
				lastLine, _ := time.Parse(time.RFC3339Nano, mark) // without a mark, all lines are logged
				c.lifecycle = detachedLifecycle{log, lastLine}
				go c.supervise()
				return c
			},
			Remove: func() { newContainer(e, words[0], io.Discard).remove() },
		})
	}
	return all, err
}
