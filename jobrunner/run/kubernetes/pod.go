package kubernetes

import (
	"context"
	"fmt"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
)

// podProcess is a pod of the management API.
type podProcess struct{ *process }

// StartPod is Start for a pod. What is left of an earlier run of it is removed first.
func (c *Cluster) StartPod(ctx context.Context, w Workload) (pod.Process, error) {
	if w.Pod.Deployment != "" {
		left, err := c.LeftPods(ctx, w.Pod.Deployment)
		if err != nil {
			return nil, err
		}
		for _, l := range left {
			if l.Pod == w.Worker {
				l.Remove()
			}
		}
	}
	p, err := c.start(ctx, w)
	if err != nil {
		return nil, err
	}
	return podProcess{p}, nil
}

// Stop leaves the grace to the cluster.
func (p podProcess) Stop(grace time.Duration) { p.end(int64(grace / time.Second)) }

func (p podProcess) Succeeded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ok
}

// LeftPods are the Pods of a deployment's pods that no process follows.
func (c *Cluster) LeftPods(ctx context.Context, deployment string) (all []pod.Left, err error) {
	if err := c.followDeployment(ctx, deployment); err != nil {
		return nil, err
	}
	for _, object := range c.lasting.List() {
		found, ok := object.(*core.Pod)
		if !ok || c.follows(found.Name) {
			continue
		}
		run, err := strconv.ParseInt(found.Labels[podRunLabel], 10, 64)
		if now := look(found); err != nil || !now.started || found.DeletionTimestamp != nil {
			run = -1 // it never ran, or is not to go on
		}
		all = append(all, c.left(found, run))
	}
	return all, nil
}

// followDeployment follows the Pods that outlive a run of the jobrunner.
func (c *Cluster) followDeployment(ctx context.Context, id string) (err error) {
	c.watching.Lock()
	defer c.watching.Unlock()
	if c.deployment == id {
		return nil
	}
	if c.lasting, err = c.watch(ctx, deploymentLabel, id); err != nil {
		return fmt.Errorf("the pods of the deployment %s: %w", id, err)
	}
	c.deployment = id
	return nil
}

func (c *Cluster) follows(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[name] != nil
}

func (c *Cluster) left(found *core.Pod, run int64) pod.Left {
	id := found.Labels[podLabel]
	take := func(s pod.Spec) *process {
		s.Worker = id
		p := c.newProcess(objectsOf(found), Workload{Spec: s.Spec, Pod: &s})
		p.seeLatest(c.latest(found.Name))
		return p
	}
	return pod.Left{
		Pod: id, Run: run,
		Adopt: func(s pod.Spec, after string) pod.Process {
			p := take(s)
			last, _ := time.Parse(time.RFC3339Nano, after) // without a mark all lines count
			p.run(last)
			return podProcess{p}
		},
		Remove: func() { take(pod.Spec{}).remove() },
	}
}

// latest is a Pod as the watch has it now; nil: it is gone.
func (c *Cluster) latest(name string) *core.Pod {
	object, there, err := c.lasting.GetByKey(c.Namespace + "/" + name)
	if found, ok := object.(*core.Pod); err == nil && there && ok {
		return found
	}
	return nil
}

// seeLatest notes a Pod, unless the watch has told of it already.
func (p *process) seeLatest(found *core.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pod == nil && !p.gone {
		p.pod, p.gone = found, found == nil
	}
}

// objectsOf are what a Pod was made with.
func objectsOf(found *core.Pod) (o objects) {
	o.pod = found
	for _, suffix := range []string{envSuffix, loginSuffix} {
		if suffix == envSuffix || len(found.Spec.ImagePullSecrets) > 0 {
			o.secrets = append(o.secrets, &core.Secret{ObjectMeta: meta.ObjectMeta{Name: found.Name + suffix}})
		}
	}
	return o
}
