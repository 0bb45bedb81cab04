package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

// process is a worker, or a pod of the management API, that runs as a Pod.
type process struct {
	cluster      *Cluster
	objects      objects
	kind         string // human-readable
	log          run.Output
	logRead      chan struct{}   // closed when the whole log has been read
	life         context.Context // ends when the objects are removed
	end          context.CancelFunc
	exit         run.Exit    // set before life ends
	stopped      atomic.Bool // by the jobrunner
	needsAddress bool        // it is reached at its Pod's address

	mu      sync.Mutex
	pod     *core.Pod     // latest version; nil if unknown
	gone    bool          // the cluster no longer has it
	changed chan struct{} // closed at each change
}

// Start creates a Pod and waits until it runs, however long the cluster needs to schedule it. The
// error says what the cluster rejected, or why the container can't start. ctx bounds only the start.
func (c *Cluster) Start(ctx context.Context, s run.Spec) (run.Process, error) {
	if s.FolderID() != "" {
		if err := c.removeOrphans(ctx, s); err != nil {
			return nil, err
		}
	}
	o, err := c.build(s)
	if err != nil {
		return nil, err
	}
	for _, m := range s.Mounts {
		if err := c.ensureClaim(ctx, m); err != nil {
			return nil, err
		}
	}
	p := c.newProcess(o, s) // before the watch reports the Pod
	if err = p.create(ctx); err == nil {
		err = p.awaitRunning(ctx)
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	p.follow(time.Time{})
	return p, nil
}

// newProcess returns a process that the watch keeps up to date.
func (c *Cluster) newProcess(o objects, s run.Spec) *process {
	p := &process{cluster: c, objects: o, kind: "worker", log: s.Log, needsAddress: s.Port != 0 || s.Pod != nil, logRead: make(chan struct{}), changed: make(chan struct{})}
	if s.Pod != nil {
		p.kind = "pod"
	}
	p.life, p.end = context.WithCancel(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[o.pod.Name] = p
	return p
}

// follow supervises the container, and copies its log lines later than since, in the background.
func (p *process) follow(since time.Time) {
	go func() {
		defer close(p.logRead)
		p.followLog(since)
	}()
	go p.supervise()
}

// create creates the objects. Secrets come first: the Pod needs them. It waits for the responses even if
// ctx ends: an object that appears after its removal would stay.
func (p *process) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cluster.removeTimeout)
	defer cancel()
	api := p.cluster.client.core
	for i, secret := range p.objects.secrets {
		if _, err := api.Secrets(p.cluster.namespace).Create(ctx, secret, meta.CreateOptions{}); err != nil {
			if kerrors.IsForbidden(err) { // perhaps its removal is forbidden, too
				p.objects.secrets = p.objects.secrets[:i]
			}
			return fmt.Errorf("creating the %s's Secret: %w", p.kind, err)
		}
	}
	pod, err := api.Pods(p.cluster.namespace).Create(ctx, p.objects.pod, meta.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the %s's Pod: %w", p.kind, err)
	}
	// The cluster removes Secrets with their Pod, in case this process ends before it removes them.
	patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q}]}}`, pod.Name, pod.UID)
	for _, secret := range p.objects.secrets {
		if _, err := api.Secrets(p.cluster.namespace).Patch(ctx, secret.Name, types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
			return fmt.Errorf("setting the owner of the %s's Secret: %w", p.kind, err)
		}
	}
	return nil
}

func (p *process) setLatest(pod *core.Pod, deleted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pod, p.gone = pod, p.gone || deleted
	close(p.changed)
	p.changed = make(chan struct{})
}

// latest returns the latest version of the Pod. changed is closed at the next change.
func (p *process) latest() (pod *core.Pod, gone bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pod, p.gone, p.changed
}

// awaitRunning waits until the container runs or has already ended. It logs each reason for a delay once.
func (p *process) awaitRunning(ctx context.Context) error {
	for logged := ""; ; {
		pod, gone, changed := p.latest()
		status := statusOf(pod)
		switch {
		case gone:
			return errors.New("its Pod was deleted before it ran")
		case status.started && (status.ended || !p.needsAddress || pod.Status.PodIP != ""):
			return nil
		case status.failure != "":
			return errors.New(status.failure)
		case status.waitReason != "" && status.waitReason != logged:
			logged = status.waitReason
			_, _ = fmt.Fprintf(p.log, "the %s waits for the cluster: %s\n", p.kind, logged) // best effort
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// supervise waits for the container's end and removes the objects.
func (p *process) supervise() {
	for {
		pod, gone, changed := p.latest()
		if status := statusOf(pod); gone || status.ended {
			switch {
			case p.stopped.Load():
				p.exit.Text = run.Stopped
			case status.ended:
				p.exit = status.exit
			default:
				p.exit.Text = podDeleted
			}
			break
		}
		<-changed
	}
	select {
	case <-p.logRead:
	case <-time.After(logTimeout):
	}
	p.remove()
	p.end()
}

// logTimeout limits the wait for the last lines of a container that ended.
const logTimeout = 5 * time.Second

// remove removes the objects, and waits until the container is gone.
func (p *process) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), p.cluster.removeTimeout)
	defer cancel()
	if err := p.tryRemove(ctx); err != nil {
		p.removeLater(err)
	}
}

// removeLater continues a removal in the background if the API server or the node doesn't respond.
func (p *process) removeLater(err error) {
	p.cluster.Logger.Warn("the objects of a "+p.kind+" can't be removed from the Kubernetes cluster: trying again, also at the next start of the jobrunner",
		"pod", p.objects.pod.Name, "namespace", p.cluster.namespace, "error", err)
	go func() {
		if p.tryRemove(p.cluster.life) == nil {
			p.cluster.Logger.Info("the objects of a "+p.kind+" have been removed from the Kubernetes cluster now", "pod", p.objects.pod.Name)
		}
	}()
}

// tryRemove removes the objects. If ctx ends, it returns the last error, or that the node doesn't respond.
func (p *process) tryRemove(ctx context.Context) error {
	if err := p.deletePod(ctx, shortestGrace); err != nil {
		return err
	}
	for {
		_, gone, changed := p.latest()
		if gone {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.New("its node does not answer")
		}
	}
	api := p.cluster.client.core.Secrets(p.cluster.namespace)
	for _, secret := range p.objects.secrets {
		err := retry(ctx, func() error { return api.Delete(ctx, secret.Name, meta.DeleteOptions{}) })
		if err != nil && !kerrors.IsNotFound(err) {
			return err
		}
	}
	p.cluster.mu.Lock()
	delete(p.cluster.processes, p.objects.pod.Name)
	p.cluster.mu.Unlock()
	return nil
}

// deletePod deletes the Pod with a grace period in seconds. It retries until that succeeds.
func (p *process) deletePod(ctx context.Context, grace int64) error {
	api := p.cluster.client.core.Pods(p.cluster.namespace)
	err := retry(ctx, func() error {
		return api.Delete(ctx, p.objects.pod.Name, meta.DeleteOptions{GracePeriodSeconds: &grace})
	})
	if kerrors.IsNotFound(err) {
		p.setLatest(p.objects.pod, true)
		return nil
	}
	return err
}

// retry retries until a try succeeds or finds that the object does not exist, or ctx ends.
func retry(ctx context.Context, try func() error) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := try()
		if err == nil || kerrors.IsNotFound(err) || clock.RealSleep(ctx, pause) != nil {
			return err
		}
	}
}

func (p *process) Done() <-chan struct{} { return p.life.Done() }
func (p *process) Exit() run.Exit        { return p.exit }

// Stop leaves the grace period to the cluster. supervise notices the end.
func (p *process) Stop(grace time.Duration) {
	p.stopped.Store(true)
	if p.life.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.cluster.removeTimeout)
	defer cancel()
	if err := p.deletePod(ctx, max(shortestGrace, int64(grace/time.Second))); err != nil {
		p.removeLater(err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
}

// Address returns the Pod's address, which doesn't change.
func (p *process) Address() string {
	pod, _, _ := p.latest()
	if pod == nil {
		return ""
	}
	return pod.Status.PodIP
}

// Usage is unknown: the container runs on another machine.
func (p *process) Usage() run.Usage { return run.Usage{} }

type podStatus struct {
	waitReason string // why the Pod isn't scheduled
	failure    string // why it can't start; the cluster would retry forever
	started    bool
	ended      bool
	exit       run.Exit
}

// startFailures are the reasons of a waiting or terminated container that failed to start.
var startFailures = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	"StartError", "ContainerCannotRun",
}

const podDeleted = "its Pod was deleted, and not by the jobrunner"

// taintEviction is the reason with which the cluster deletes the Pods of a node that it has lost. The node doesn't report their end.
const taintEviction = "DeletionByTaintManager"

func statusOf(pod *core.Pod) (status podStatus) {
	if pod == nil {
		return status
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != containerName {
			continue
		}
		switch s := c.State; {
		case s.Terminated != nil && slices.Contains(startFailures, s.Terminated.Reason):
			status.failure = fmt.Sprintf("its container can't be started: %s: %s", s.Terminated.Reason, s.Terminated.Message)
			return status
		case s.Terminated != nil:
			status.started, status.ended = true, true
			status.exit = run.Exit{Text: procgroup.StatusText(int(s.Terminated.ExitCode), s.Terminated.Reason == "OOMKilled"), OK: s.Terminated.ExitCode == 0}
		case s.Running != nil:
			status.started = true
		case s.Waiting != nil && slices.Contains(startFailures, s.Waiting.Reason):
			status.failure = fmt.Sprintf("its container can't be started: %s: %s", s.Waiting.Reason, s.Waiting.Message)
		}
	}
	reason, message := pod.Status.Reason, pod.Status.Message // if it was evicted, or ran longer than the cluster allows
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == core.DisruptionTarget && c.Status == core.ConditionTrue: // preempted, or its node is drained or gone
			reason, message = c.Reason, c.Message
		case c.Type == core.PodScheduled && c.Status == core.ConditionFalse:
			status.waitReason = c.Message
		}
	}
	if pod.Status.Phase == core.PodFailed || pod.Status.Phase == core.PodSucceeded || reason == taintEviction {
		status.started, status.ended = true, true
	}
	switch {
	case !status.ended:
	case pod.DeletionTimestamp != nil && reason == "": // supervise knows whether the jobrunner deleted it
		status.exit = run.Exit{Text: podDeleted}
	case reason != "" || status.exit.Text == "":
		status.exit = run.Exit{Text: fmt.Sprintf("the cluster ended it: %s: %s", reason, message)}
	}
	return status
}
