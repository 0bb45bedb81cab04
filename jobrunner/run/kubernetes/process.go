package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// process is a worker or a pod of the management API in a Pod.
type process struct {
	cluster *Cluster
	objects objects
	kind    string // for people
	notes   io.Writer
	line    func(text, mark string) // takes what it writes
	logs    sync.WaitGroup          // the reader of its log
	done    chan struct{}
	serves  bool // it is reached at its Pod's address

	mu      sync.Mutex
	pod     *core.Pod     // as it was last seen; nil before that
	gone    bool          // the cluster has it no more
	changed chan struct{} // closed with each change
	exit    string
	ok      bool // it ended well
	killed  bool
}

// Start makes a workload's Pod and waits until it runs, however long the cluster needs to
// place it. The error says what the cluster refused, or why the container can't start.
// ctx bounds the start alone.
func (c *Cluster) Start(ctx context.Context, s Workload) (worker.Process, error) {
	p, err := c.start(ctx, s)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (c *Cluster) start(ctx context.Context, s Workload) (*process, error) {
	o, err := c.build(s)
	if err != nil {
		return nil, err
	}
	for _, m := range s.Mounts {
		if err := c.claim(ctx, m); err != nil {
			return nil, err
		}
	}
	p := c.newProcess(o, s) // before it can be seen
	if err = p.create(ctx); err == nil {
		err = p.untilRunning(ctx)
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	p.run(time.Time{})
	return p, nil
}

// newProcess is one that is told of its Pod from now on.
func (c *Cluster) newProcess(o objects, s Workload) *process {
	if s.Log == nil {
		s.Log = io.Discard
	}
	p := &process{
		cluster: c, objects: o, kind: s.kind(), notes: s.Log, serves: s.Port != 0 || s.Pod != nil, done: make(chan struct{}), changed: make(chan struct{}),
		line: func(text, _ string) { _, _ = io.WriteString(s.Log, text+"\n") }, // a log takes what it can
	}
	if s.Pod != nil && s.Pod.Line != nil {
		p.line = s.Pod.Line
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[o.pod.Name] = p
	return p
}

// run follows the container until it ends; its log from after a time on.
func (p *process) run(after time.Time) {
	p.logs.Go(func() { p.follow(after) })
	go p.supervise()
}

// create makes the objects: the Secrets first, without which the Pod waits.
func (p *process) create(ctx context.Context) error {
	api := p.cluster.client.CoreV1()
	for _, secret := range p.objects.secrets {
		if _, err := api.Secrets(p.cluster.Namespace).Create(ctx, secret, meta.CreateOptions{}); err != nil {
			return fmt.Errorf("the cluster does not take the %s's Secret: %w", p.kind, err)
		}
	}
	pod, err := api.Pods(p.cluster.Namespace).Create(ctx, p.objects.pod, meta.CreateOptions{})
	if err != nil {
		return fmt.Errorf("the cluster does not take the %s's Pod: %w", p.kind, err)
	}
	// The cluster removes Secrets whose Pod is gone, should this process end before it
	// does that itself.
	patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q}]}}`, pod.Name, pod.UID)
	for _, secret := range p.objects.secrets {
		if _, err := api.Secrets(p.cluster.Namespace).Patch(ctx, secret.Name, types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
			return fmt.Errorf("the owner of the %s's Secret: %w", p.kind, err)
		}
	}
	return nil
}

// see notes how the Pod is.
func (p *process) see(pod *core.Pod, deleted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pod, p.gone = pod, p.gone || deleted
	close(p.changed)
	p.changed = make(chan struct{})
}

// last is how the Pod was last seen, and what tells of the next change.
func (p *process) last() (pod *core.Pod, gone bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pod, p.gone, p.changed
}

// untilRunning waits until the container runs, or has ended already. What holds it up is
// told to the log once.
func (p *process) untilRunning(ctx context.Context) error {
	for told := ""; ; {
		pod, gone, changed := p.last()
		now := look(pod)
		switch {
		case gone:
			return errors.New("its Pod was deleted before it ran")
		case now.started && (now.ended || !p.serves || pod.Status.PodIP != ""):
			return nil
		case now.failure != "":
			return errors.New(now.failure)
		case now.waits != "" && now.waits != told:
			told = now.waits
			_, _ = fmt.Fprintf(p.notes, "the %s waits for the cluster: %s\n", p.kind, told) // a log takes what it can
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
		pod, gone, changed := p.last()
		if now := look(pod); gone || now.ended {
			p.mu.Lock()
			switch {
			case p.killed:
				p.exit = "stopped by the jobrunner"
			case now.ended:
				p.exit, p.ok = now.exit, now.ok
			default:
				p.exit = "its Pod was deleted, and not by the jobrunner"
			}
			p.mu.Unlock()
			break
		}
		<-changed
	}
	p.waitForLog()
	p.remove()
	close(p.done)
}

// logPatience is how long the last lines of a container that ended are waited for.
const logPatience = 5 * time.Second

func (p *process) waitForLog() {
	read := make(chan struct{})
	go func() {
		p.logs.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(logPatience):
	}
}

// remove removes the objects, and waits until the container is gone.
func (p *process) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), p.cluster.patience)
	defer cancel()
	if err := p.clear(ctx); err != nil {
		p.removeLater(err)
	}
}

// removeLater goes on with a removal that takes long, since the API server or the node does
// not answer, without a waiter.
func (p *process) removeLater(why error) {
	p.cluster.Logger.Warn("what a "+p.kind+" was made of can't be removed from the Kubernetes cluster: trying again, also at the next start of the jobrunner",
		"pod", p.objects.pod.Name, "namespace", p.cluster.Namespace, "error", why)
	go func() {
		ctx, cancel := p.cluster.untilClosed()
		defer cancel()
		if p.clear(ctx) == nil {
			p.cluster.Logger.Info("what a "+p.kind+" was made of is removed from the Kubernetes cluster now", "pod", p.objects.pod.Name)
		}
	}()
}

// clear removes the objects. The error is the last one when ctx ends.
func (p *process) clear(ctx context.Context) error {
	if err := p.delete(ctx, shortestGrace); err != nil {
		return err
	}
	for {
		_, gone, changed := p.last()
		if gone {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.New("its node does not answer")
		}
	}
	api := p.cluster.client.CoreV1().Secrets(p.cluster.Namespace)
	for _, secret := range p.objects.secrets {
		err := again(ctx, func() error { return api.Delete(ctx, secret.Name, meta.DeleteOptions{}) })
		if err != nil && !kerrors.IsNotFound(err) {
			return err
		}
	}
	p.cluster.mu.Lock()
	delete(p.cluster.processes, p.objects.pod.Name)
	p.cluster.mu.Unlock()
	return nil
}

// delete asks the cluster to delete the Pod, with seconds of grace, until it has heard.
func (p *process) delete(ctx context.Context, grace int64) error {
	api := p.cluster.client.CoreV1().Pods(p.cluster.Namespace)
	err := again(ctx, func() error {
		return api.Delete(ctx, p.objects.pod.Name, meta.DeleteOptions{GracePeriodSeconds: &grace})
	})
	if kerrors.IsNotFound(err) {
		p.see(p.objects.pod, true)
		return nil
	}
	return err
}

// again tries until the cluster answers, be it that there is nothing to delete.
func again(ctx context.Context, try func() error) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := try()
		if err == nil || kerrors.IsNotFound(err) || wait(ctx, pause) != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d): // the cluster's time is real
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Exit() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Kill deletes the Pod; supervise sees that it ends.
func (p *process) Kill() { p.end(shortestGrace) }

// end deletes the Pod with seconds of grace, and waits until it is gone.
func (p *process) end(grace int64) {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	select {
	case <-p.done:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.cluster.patience)
	defer cancel()
	if err := p.delete(ctx, grace); err != nil {
		p.removeLater(err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
	}
}

// Address is the Pod's, which it keeps.
func (p *process) Address() string {
	pod, _, _ := p.last()
	if pod == nil {
		return ""
	}
	return pod.Status.PodIP
}

// Usage is not known: what runs is on another machine.
func (p *process) Usage() worker.Usage { return worker.Usage{} }
