package host

import (
	"bytes"
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
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Labels of the containers of pods. One that has the label of a deployment outlives a
// jobrunner that is killed, and is found by it; one of a deployment that keeps nothing
// has the label of its run, as those of workers.
const (
	podLabel        = "gpucloud.pod"
	podRunLabel     = "gpucloud.pod.run"
	deploymentLabel = "gpucloud.deployment"
)

func (c creation) podLabels() []string {
	labels := []string{"--label", podLabel + "=" + c.pod.Worker, "--label", podRunLabel + "=" + strconv.FormatInt(c.pod.Run, 10)}
	if c.pod.Deployment != "" {
		return append(labels, "--label", deploymentLabel+"="+c.pod.Deployment)
	}
	return append(labels, "--label", runLabel+"="+c.run)
}

// noNetwork is that of a container that reaches nobody.
const noNetwork = "none"

// appendPorts publishes the ports of a pod, to this machine alone, and gives it its name
// in a network of its own.
func (c creation) appendPorts(args []string) []string {
	if c.pod.Network != "" && c.network() == c.pod.Network {
		args = append(args, "--network-alias", pod.InternalName(c.pod.Worker))
	}
	if c.pod.Network != "" && c.pod.IP != "" {
		args = append(args, "--ip", c.pod.IP)
	}
	for _, port := range c.pod.Ports {
		if port.Public == 0 {
			continue
		}
		args = append(args, "--publish", fmt.Sprintf("%s:%d:%d", pod.PublicIP, port.Public, port.Private))
	}
	return args
}

func (e *Executor) podContainer(image string, s *containerSettings) (pod.Program, error) {
	if !imageForm.MatchString(image) {
		return pod.Program{}, fmt.Errorf("invalid image %q: expected the name of a container's image", image)
	}
	if e.cluster != nil {
		return e.podInCluster(s), nil
	}
	engine, err := e.engines.usable()
	if err != nil {
		return pod.Program{}, err
	}
	program := pod.Program{Start: e.startPodContainer(engine, s), Publish: anyPort, Network: e.clusterNetwork(engine)}
	switch s.Network.Value {
	case hostNetwork:
		program.Publish, program.Network = samePort, nil
	case noNetwork:
		program.Publish, program.Network = nil, refuseNetwork
	}
	return program, nil
}

// startPodContainer runs a pod as a container. It is the container engine's child, not
// the jobrunner's, so it goes on when the jobrunner is killed.
func (e *Executor) startPodContainer(engine *containerEngine, settings *containerSettings) func(context.Context, pod.Spec) (pod.Process, error) {
	return func(ctx context.Context, s pod.Spec) (_ pod.Process, err error) {
		defer func() {
			if err != nil {
				engine.markUnusable()
			}
		}()
		scratch, err := e.folder()
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(scratch) // it has the secrets
		if err := engine.fetch(ctx, scratch, settings, s.Spec); err != nil {
			return nil, err
		}
		if s.IP == "" { // a cluster's is there
			if err := engine.makeNetwork(ctx, s.Network); err != nil {
				return nil, err
			}
		}
		if s.Deployment != "" { // one that was left while the engine did not answer
			for _, l := range engine.leftPods(ctx, podLabel+"="+s.Worker) {
				l.Remove()
			}
		}
		c := &podContainer{container: container{engine: engine, name: containerName(s.Worker), done: make(chan struct{}), log: s.Log}, line: s.Line}
		args, env, err := creation{settings, s.Spec, c.name, e.register.Run(), engine.podman, runtime.GOOS, &s}.args(scratch)
		if err != nil {
			return nil, err
		}
		if s.Deployment == "" {
			if err := e.register.Note(engine.path); err != nil {
				return nil, err
			}
		}
		if _, err := engine.cliWith(ctx, env, nil, args...); err != nil {
			c.remove() // it may be there nonetheless
			return nil, fmt.Errorf("creating a container of %s: %w", s.Image, err)
		}
		if err := engine.start(ctx, c.name); err != nil {
			c.remove()
			return nil, fmt.Errorf("starting a container of %s: %w", s.Image, err)
		}
		if s.Network != "" {
			c.findAddress(ctx, s.Network)
		}
		go c.supervise("")
		return c, nil
	}
}

// start starts a container, which must not be a process of the jobrunner's: what it
// starts in a group would end with that.
func (e *containerEngine) start(ctx context.Context, name string) error {
	says, err := os.CreateTemp("", "gpucloud-")
	if err != nil {
		return err
	}
	defer func() {
		_ = says.Close()
		_ = os.Remove(says.Name()) // a file of no use
	}()
	cmd := exec.CommandContext(ctx, e.path, "start", name)
	cmd.Env, cmd.Stderr = e.environment(), says // a pipe would stay open with the container
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(says.Name())                                                 // what it said is of use, and no more
		if cause, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n"); cause != "" { // and then, which container
			err = errors.New(cause)
		}
		return fmt.Errorf("%s: %w", e.name(), err)
	}
	return nil
}

// makeNetwork makes a private network where there is none of the name.
func (e *containerEngine) makeNetwork(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	exists := func() bool {
		_, err := e.cli(ctx, "network", "inspect", name)
		return err == nil
	}
	if exists() {
		return nil
	}
	if _, err := e.cli(ctx, "network", "create", name); err != nil && !exists() { // another may have made it
		return fmt.Errorf("making the network %s: %w", name, err)
	}
	return nil
}

// podContainer is a pod in a container.
type podContainer struct {
	container
	line    func(text, mark string)
	address string

	ending sync.Mutex // of what follows
	status int        // -1: nobody knows
	asked  bool       // to end
}

func (c *podContainer) Address() string { return c.address }

// findAddress asks for the address in a network. A pod without one runs all the same.
func (c *podContainer) findAddress(ctx context.Context, network string) {
	text, err := c.engine.cli(ctx, "inspect", "--format", fmt.Sprintf("{{with index .NetworkSettings.Networks %q}}{{.IPAddress}}{{end}}", network), c.name)
	if err == nil {
		c.address = strings.TrimSpace(text)
	}
}

// followAgain is the pause before a container is followed again.
const followAgain = time.Second

// supervise follows what the container writes, from a mark on, until it has ended, and
// removes it.
func (c *podContainer) supervise(after string) {
	defer close(c.done)
	for {
		after = c.follow(after)
		over, status, oom := c.inspectEnd()
		if over {
			c.ending.Lock()
			c.status = status
			c.ending.Unlock()
			c.mu.Lock()
			c.oom = oom
			c.mu.Unlock()
			break
		}
		time.Sleep(followAgain) // an engine lives in real time
	}
	c.remove()
}

// follow passes the container's lines on, and answers the mark of the last one.
func (c *podContainer) follow(after string) string {
	args := []string{c.engine.path, "logs", "--follow", "--timestamps"}
	if after != "" {
		args = append(args, "--since", after)
	}
	lines := &markedLines{since: after, after: after, line: c.line, pieces: c.engine.podman}
	group, err := procgroup.Start(procgroup.Command{
		Path: c.engine.path, Args: append(args, c.name), Env: c.engine.environment(), Output: lines, Register: c.engine.register,
	})
	if err != nil {
		return after
	}
	<-group.Done()
	lines.flush()
	return lines.after
}

// inspectEnd tells whether the container is over, and how it ended. While the engine does
// not answer it is not.
func (c *podContainer) inspectEnd() (over bool, status int, oom bool) {
	ctx, cancel := context.WithTimeout(context.Background(), backgroundTimeout)
	defer cancel()
	text, err := c.engine.cli(ctx, "inspect", "--format", "{{.State.Running}} {{.State.ExitCode}} {{.State.OOMKilled}}", c.name)
	if err != nil {
		there, failed := c.engine.cli(ctx, "ps", "--all", "--quiet", "--filter", "name=^/?"+regexp.QuoteMeta(c.name)+"$")
		return failed == nil && strings.TrimSpace(there) == "", -1, false
	}
	words := strings.Fields(text)
	if len(words) != 3 || words[0] == "true" {
		return false, 0, false
	}
	status, _ = strconv.Atoi(words[1]) // an engine writes a number
	return true, status, words[2] == "true"
}

func (c *podContainer) Succeeded() bool {
	c.ending.Lock()
	defer c.ending.Unlock()
	return c.status == 0
}

func (c *podContainer) Exit() string {
	c.ending.Lock()
	status, asked := c.status, c.asked
	c.ending.Unlock()
	c.mu.Lock()
	oom := c.oom
	c.mu.Unlock()
	switch {
	case asked:
		return "stopped by the jobrunner"
	case status < 0:
		return "its container was removed by somebody else"
	}
	return procgroup.StatusText(status, oom)
}

func (c *podContainer) Kill() { c.stop("kill", c.name) }

// Stop leaves the grace to the engine.
func (c *podContainer) Stop(grace time.Duration) {
	c.stop("stop", "--time", strconv.Itoa(int(grace/time.Second)), c.name)
}

// stop has the container end, and waits until it is removed.
func (c *podContainer) stop(command ...string) {
	select {
	case <-c.done:
		return
	default:
	}
	c.ending.Lock()
	c.asked = true
	c.ending.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), removing)
	defer cancel()
	if _, err := c.engine.cli(ctx, command...); err != nil {
		c.remove() // by force
	}
	<-c.done
}

// Usage is that of the container's processes where they are this machine's.
func (c *podContainer) Usage() worker.Usage { return c.container.Usage() }

// Left are the containers that pods of a deployment left, and its Pods in the cluster.
func (p podPrograms) Left(ctx context.Context, deployment string) (all []pod.Left) {
	if deployment == "" {
		return nil
	}
	if p.cluster != nil {
		var err error
		if all, err = p.cluster.LeftPods(ctx, deployment); err != nil {
			p.log.WarnContext(ctx, "what pods left in the cluster is not known: they start anew, and what is left is removed then", "error", err)
		}
	}
	for _, e := range p.engines.all {
		if e.state() == nil {
			all = append(all, e.leftPods(ctx, deploymentLabel+"="+deployment)...)
		}
	}
	return all
}

// leftPods are the containers with a label, the newest first.
func (e *containerEngine) leftPods(ctx context.Context, label string) (all []pod.Left) {
	ctx, cancel := context.WithTimeout(ctx, removing)
	defer cancel()
	names, err := e.cli(ctx, "ps", "--all", "--filter", "label="+label, "--format", "{{.Names}}")
	if err != nil {
		return nil
	}
	for name := range strings.FieldsSeq(names) {
		text, err := e.cli(ctx, "inspect", "--format", fmt.Sprintf("{{index .Config.Labels %q}} {{index .Config.Labels %q}} {{.State.Status}}", podLabel, podRunLabel), name)
		words := strings.Fields(text)
		if err != nil || len(words) != 3 {
			continue
		}
		run, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil || words[2] == "created" || words[2] == "configured" {
			run = -1 // it never ran
		}
		all = append(all, e.left(name, words[0], run))
	}
	return all
}

func (e *containerEngine) left(name, id string, run int64) pod.Left {
	return pod.Left{
		Pod: id, Run: run,
		Adopt: func(s pod.Spec, after string) pod.Process {
			c := &podContainer{container: container{engine: e, name: name, done: make(chan struct{}), log: io.Discard}, line: s.Line}
			go c.supervise(after)
			return c
		},
		Remove: func() {
			c := container{engine: e, name: name, log: io.Discard}
			c.remove()
		},
	}
}

// markedLines takes lines of an engine that begin with their time, and passes on those
// after one.
type markedLines struct {
	since string // the mark of the last one before
	after string // of the last one so far
	line  func(text, mark string)
	rest  []byte
	// pieces says that there may be further times in a line.
	pieces bool
}

func (m *markedLines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if m.rest = append(m.rest, line...); !whole {
			return n, nil
		}
		m.flush()
		b = rest
	}
}

// flush passes on what there is of a line.
func (m *markedLines) flush() {
	if len(m.rest) == 0 {
		return
	}
	mark, text, _ := strings.Cut(string(m.rest), " ")
	m.rest = m.rest[:0]
	at, err := time.Parse(time.RFC3339Nano, mark)
	if err != nil { // not of the container
		return
	}
	if last, err := time.Parse(time.RFC3339Nano, m.since); err == nil && !at.After(last) {
		return
	}
	m.after = mark
	m.line(m.whole(text, mark, at), mark)
}

// whole is a line without the times that podman puts before each piece that a program
// wrote of it. They are not before that of the line, which those are that the program
// itself writes down.
func (m *markedLines) whole(text, mark string, at time.Time) string {
	if !m.pieces {
		return text
	}
	return pieceMark.ReplaceAllStringFunc(text, func(found string) string {
		if t, err := time.Parse(time.RFC3339Nano, strings.TrimSuffix(found, " ")); err != nil || t.Before(at) || len(found) != len(mark)+1 {
			return found
		}
		return ""
	})
}

var pieceMark = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d) `)
