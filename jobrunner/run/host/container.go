package host

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Labels of every container.
const (
	runLabel      = "gpucloud.run"
	endpointLabel = "gpucloud.endpoint"
	workerLabel   = "gpucloud.worker"
)

// startContainer makes a worker of a container. It is created by one command
// and started by another: from the first on it has a name by which it is
// removed, whatever happens to the second.
func (e *Executor) startContainer(engine *containerEngine, settings *containerSettings) func(context.Context, worker.Spec) (worker.Process, error) {
	return func(ctx context.Context, s worker.Spec) (_ worker.Process, err error) {
		defer func() {
			if err != nil {
				engine.markUnusable()
			}
		}()
		if s.Log == nil {
			s.Log = io.Discard
		}
		scratch, err := e.folder()
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(scratch) // it has the secrets
		if err := engine.fetch(ctx, scratch, settings, s); err != nil {
			return nil, err
		}
		c := &container{engine: engine, name: containerName(s.Worker), done: make(chan struct{}), log: s.Log}
		args, env, err := creation{settings, s, c.name, e.register.Run(), engine.podman, runtime.GOOS, nil}.args(scratch)
		if err != nil {
			return nil, err
		}
		if err := e.register.Note(engine.path); err != nil {
			return nil, err
		}
		if _, err := engine.cliWith(ctx, env, nil, args...); err != nil {
			c.remove() // it may be there nonetheless
			return nil, fmt.Errorf("creating a container of %s: %w", s.Image, err)
		}
		c.group, err = procgroup.Start(procgroup.Command{
			Path: engine.path, Args: []string{engine.path, "start", "--attach", c.name}, Env: engine.environment(),
			Output: s.Log, Register: e.register,
		})
		if err != nil {
			c.remove()
			return nil, err
		}
		go c.superviseRun()
		return c, nil
	}
}

// folder is one that only this user reads.
func (e *Executor) folder() (string, error) {
	if e.scratch != "" {
		if err := os.MkdirAll(e.scratch, 0o700); err != nil {
			return "", fmt.Errorf("a folder for the start of a container: %w", err)
		}
	}
	return os.MkdirTemp(e.scratch, "gpucloud-")
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_.-]+`)

// containerName is another each time: the last one of a worker may still be on
// its way out.
func containerName(worker string) string {
	return "gpucloud-" + notInNames.ReplaceAllString(worker, "-") + "-" + uuid.NewString()[:8]
}

// container is a worker in a container; group is the command that is attached
// to it.
type container struct {
	engine *containerEngine
	name   string
	group  *procgroup.Group
	log    io.Writer
	done   chan struct{}

	mu      sync.Mutex
	finding bool
	pid     int  // of its first process, 0 while it isn't known
	oom     bool // it ended because memory ran out
}

// superviseRun removes the container when the command that is attached to it ends, and
// asks before how it ended.
func (c *container) superviseRun() {
	<-c.group.Done()
	if c.group.Code() > 0 {
		c.inspectExit()
	}
	c.remove()
	close(c.done)
}

func (c *container) Done() <-chan struct{} { return c.done }

func (c *container) Kill() {
	c.group.Signal()
	<-c.done
}

// Exit tells a signal that ended the container from a status: engines tell
// both by one number.
func (c *container) Exit() string {
	c.mu.Lock()
	oom := c.oom
	c.mu.Unlock()
	code := c.group.Code()
	switch {
	case code == statusKilled && !oom && c.group.OOMKills() > 0:
		// Podman does not always tell, and docker nothing of what it did not start.
		return fmt.Sprintf("exit status %d: killed by SIGKILL, out of memory, for which the kernel ended processes meanwhile", code)
	case code > 0:
		return procgroup.StatusText(code, oom)
	}
	return c.group.Exit()
}

// statusKilled is the status of a container that SIGKILL ended.
const statusKilled = 128 + 9

// inspectExit asks the engine whether the container ended because memory ran out.
func (c *container) inspectExit() {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	text, err := c.engine.cli(ctx, "inspect", "--format", "{{.State.OOMKilled}}", c.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oom = err == nil && strings.TrimSpace(text) == "true"
}

// Usage is that of the container's processes where they are this machine's.
func (c *container) Usage() worker.Usage {
	select {
	case <-c.done:
		return worker.Usage{}
	default:
	}
	c.mu.Lock()
	pid := c.pid
	if pid == 0 && !c.finding {
		c.finding = true
		c.engine.probes.Go(c.findProcess)
	}
	c.mu.Unlock()
	if pid == 0 {
		return worker.Usage{}
	}
	return worker.Usage(procgroup.UsageOf(pid))
}

// findProcess asks for the container's first process, which it has once it runs.
func (c *container) findProcess() {
	ctx, cancel := context.WithTimeout(c.engine.life, probeTimeout)
	defer cancel()
	id, err := c.engine.cli(ctx, "inspect", "--format", "{{.State.Pid}}", c.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finding = false
	if err == nil {
		c.pid, _ = strconv.Atoi(strings.TrimSpace(id)) // 0 where the engine names no process
	}
}

// remove ends the container and waits until it is gone.
func (c *container) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), removing)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		_, failed := c.engine.cli(ctx, "rm", "--force", c.name)
		// One that is being removed already, or was, fails; what counts is whether
		// it is there.
		there, err := c.engine.cli(ctx, "ps", "--all", "--quiet", "--filter", "name=^/?"+regexp.QuoteMeta(c.name)+"$")
		switch {
		case err == nil && strings.TrimSpace(there) == "":
			return
		case ctx.Err() != nil || err != nil:
			_, _ = fmt.Fprintf(c.log, "the container %s could not be removed, the next start of the jobrunner tries again: %v\n", c.name, errors.Join(failed, err))
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// creation is what a container is created from.
type creation struct {
	*containerSettings
	worker.Spec
	name, run string
	podman    bool
	system    string    // this machine's, as Go calls it
	pod       *pod.Spec // nil for a worker
}

func (c creation) labels() []string {
	if c.pod != nil {
		return c.podLabels()
	}
	return []string{"--label", runLabel + "=" + c.run, "--label", endpointLabel + "=" + c.Endpoint, "--label", workerLabel + "=" + c.Worker}
}

// hostNetwork lets a container reach the deployment where that is reached by
// this machine alone, on Linux.
const hostNetwork = "host"

func (c creation) network() string {
	switch {
	case c.pod != nil && c.pod.IP != "" && c.pod.Network != "": // a cluster's, which has the others
		return c.pod.Network
	case c.Network.Value != "":
		return c.Network.Value
	case c.pod != nil:
		return c.pod.Network
	case c.system == "linux":
		return hostNetwork
	}
	return "" // that of the engine, which runs in a virtual machine
}

// args are the engine's arguments, none of which has a secret: the environment
// is in a file of the folder, or, where a file can't have it, in env.
func (c creation) args(folder string) (args, env []string, err error) {
	args = append([]string{"create", "--pull", "never", "--name", c.name}, c.labels()...)
	if c.podman && c.pod == nil { // its removal would ask the worker to end, and wait ten seconds
		args = append(args, "--stop-timeout", "0")
	}
	args, env, err = c.environment(args, folder)
	if err != nil {
		return nil, nil, err
	}
	args = c.appendHostAccess(args)
	args = append(args, c.devices()...)
	for _, m := range c.Mounts {
		mount, err := fields("type=bind", "source="+m.Dir, "target="+m.Path)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, "--mount", mount)
	}
	if c.DiskLimit && c.Disk > 0 {
		args = append(args, "--storage-opt", fmt.Sprintf("size=%dG", c.Disk))
	}
	for _, option := range c.Options {
		args = append(args, option.Value)
	}
	words, err := words(c.Args)
	if err != nil {
		return nil, nil, err
	}
	if len(c.Entrypoint) > 0 { // the option takes the first word alone
		args = append(args, "--entrypoint", c.Entrypoint[0])
		words = append(slices.Clone(c.Entrypoint[1:]), words...)
	}
	return append(append(args, c.Image), words...), env, nil
}

// environment writes the variables where the engine finds them.
func (c creation) environment(args []string, folder string) (_, inherited []string, err error) {
	vars := make(map[string]string, len(c.Env)+1)
	for name, value := range c.Env {
		vars[name] = value
		if c.network() != hostNetwork && strings.HasPrefix(name, reservedStart) {
			vars[name] = c.urlInContainer(value)
		}
	}
	if len(c.Devices) == 0 {
		vars["NVIDIA_VISIBLE_DEVICES"] = "void" // an image may ask for all
	}
	var file strings.Builder
	for name, value := range vars {
		switch {
		case !nameForm.MatchString(name):
			return nil, nil, fmt.Errorf("invalid variable %q: expected a name of letters, digits and _, with no digit first", name)
		case !strings.ContainsAny(value, "\r\n") && len(value) < maxFileLine:
			file.WriteString(name + "=" + value + "\n")
		case engineReads(name):
			return nil, nil, fmt.Errorf("the variable %s can't be given to a container: it means something to the engine's own command line, and with more than one line a file can't carry it", name)
		default:
			inherited = append(inherited, name+"="+value)
			args = append(args, "--env", name)
		}
	}
	path := filepath.Join(folder, "env")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return nil, nil, fmt.Errorf("the environment of a container: %w", err)
	}
	return append(args, "--env-file", path), inherited, nil
}

// maxFileLine bounds a line of a file of variables: engines read no longer ones.
const maxFileLine = 60 << 10

// engineReads tells whether a variable could change what the engine's command
// line does, or what is loaded into it.
func engineReads(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{
		"DOCKER", "BUILDKIT", "COMPOSE", "CONTAINER", "PODMAN", "REGISTRY", "STORAGE", "LD_", "DYLD_", "GLIBC", "MALLOC", "GO", "XDG_", "DBUS_", "SSL", "HTTP", "NO_PROXY", "ALL_PROXY", "SSH",
		"PATH", "HOME", "TMP", "TEMP", "LANG", "LC_", "NOTIFY", "LISTEN_",
	}, func(start string) bool { return strings.HasPrefix(name, start) })
}

// appendHostAccess lets the container and the deployment reach each other. In a network
// of its own a container has its ports published, to this machine alone.
func (c creation) appendHostAccess(args []string) []string {
	network := c.network()
	if network != "" {
		args = append(args, "--network", network)
	}
	switch {
	case network == hostNetwork:
		return args
	case c.pod != nil:
		return c.appendPorts(args)
	}
	if !c.podman && c.system == "linux" {
		args = append(args, "--add-host", dockerHost+":host-gateway")
	}
	if c.Port > 0 {
		args = append(args, "--publish", fmt.Sprintf("127.0.0.1:%d:%d", c.Port, c.Port))
	}
	for _, port := range c.Ports {
		number, _, _ := strings.Cut(port, "/")
		if number != strconv.Itoa(c.Port) {
			args = append(args, "--publish", "127.0.0.1::"+number)
		}
	}
	return args
}

// The names of this machine in a container with a network of its own.
const (
	dockerHost = "host.docker.internal"
	podmanHost = "host.containers.internal"
)

// urlInContainer is a URL of this machine as the container has to call it.
func (c creation) urlInContainer(url string) string {
	host := dockerHost
	if c.podman {
		host = podmanHost
	}
	for _, local := range []string{"127.0.0.1", "localhost", "[::1]"} {
		url = strings.Replace(url, "://"+local+":", "://"+host+":", 1)
	}
	return url
}

// devices gives the worker its own GPUs, and no other.
func (c creation) devices() (args []string) {
	all := uuids(c.Spec)
	switch {
	case len(all) == 0:
		return nil
	case c.podman:
		for _, id := range all {
			args = append(args, "--device", "nvidia.com/gpu="+id)
		}
		return args
	}
	// The option is a list of fields of its own.
	return []string{"--gpus", `"device=` + strings.Join(all, ",") + `"`}
}

// fields joins the fields of an option that is written like a line of CSV.
func fields(all ...string) (string, error) {
	var line strings.Builder
	w := csv.NewWriter(&line)
	if err := w.Write(all); err != nil {
		return "", err
	}
	w.Flush()
	return strings.TrimSuffix(line.String(), "\n"), w.Error()
}
