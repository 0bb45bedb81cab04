package kubernetes

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Orphans returns the Kubernetes Pods of the pods of a data folder, except the Pods that this Cluster
// already follows.
func (c *Cluster) Orphans(ctx context.Context, folderID string) (all []run.Orphan, err error) {
	if err := c.watchPersistent(ctx, folderID); err != nil {
		return nil, err
	}
	for _, pod := range cachedObjects[core.Pod](c.persistentPods) {
		c.mu.Lock()
		followed := c.processes[pod.Name]
		c.mu.Unlock()
		if followed != nil {
			continue
		}
		generation, err := strconv.ParseInt(pod.Labels[podGenerationLabel], 10, 64)
		if err != nil || !statusOf(pod).started || pod.DeletionTimestamp != nil {
			generation = -1 // it never ran, or is being deleted
		}
		all = append(all, c.newOrphan(pod, generation))
	}
	return all, nil
}

func (c *Cluster) removeOrphans(ctx context.Context, s run.Spec) error {
	orphans, err := c.Orphans(ctx, s.FolderID())
	if err != nil {
		return err
	}
	for _, o := range orphans {
		if o.Pod == s.ID {
			o.Remove()
		}
	}
	return nil
}

// watchPersistent watches the Pods that outlive a run of the jobrunner.
func (c *Cluster) watchPersistent(ctx context.Context, folderID string) (err error) {
	c.watchMu.Lock()
	defer c.watchMu.Unlock()
	if c.folderID == folderID {
		return nil
	}
	if c.persistentPods, err = c.watch(ctx, folderLabel, folderID); err != nil {
		return fmt.Errorf("the pods of the data folder %s: %w", folderID, err)
	}
	c.folderID = folderID
	return nil
}

func (c *Cluster) newOrphan(pod *core.Pod, generation int64) run.Orphan {
	id := pod.Labels[podLabel]
	newProcess := func(log run.Output) *process {
		p := c.newProcess(objectsOf(pod), run.Spec{ID: id, Log: log, Pod: &run.Pod{Run: generation}})
		object, _, _ := c.persistentPods.Get(pod) // uses only the Pod's name, and never fails
		latest, _ := object.(*core.Pod)           // nil if it's gone
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.pod == nil && !p.gone { // otherwise the watch has set it
			p.pod, p.gone = latest, latest == nil
		}
		return p
	}
	return run.Orphan{
		Pod: id, Run: generation,
		Adopt: func(log run.Output, mark string) run.Process {
			p := newProcess(log)
			last, _ := time.Parse(time.RFC3339Nano, mark) // without a mark, all lines are logged
			p.follow(last)
			return p
		},
		Remove: func() { newProcess(nil).remove() },
	}
}

func objectsOf(pod *core.Pod) (o objects) {
	o.pod = pod
	for _, suffix := range []string{envSuffix, loginSuffix} {
		if suffix == envSuffix || len(pod.Spec.ImagePullSecrets) > 0 {
			o.secrets = append(o.secrets, &core.Secret{ObjectMeta: meta.ObjectMeta{Name: pod.Name + suffix}})
		}
	}
	return o
}

// selfVariable is the variable with the name of the jobrunner's own Pod. If it isn't set, the
// host name is used, which is the Pod's name unless the Pod uses its node's network.
const selfVariable = "POD_NAME"

// findSelf returns the name of the Pod that this process runs in, or "".
func findSelf() string {
	if name := os.Getenv(selfVariable); name != "" {
		return name
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return ""
	}
	name, _ := os.Hostname() // "" if it fails
	return name
}

// owners are the owner references of objects. If the jobrunner doesn't remove an object, the
// cluster removes it with its owner. The jobrunner's Pod owns the objects that end with this
// process. The Pod's controller, such as a Deployment, owns the objects that survive it. If the
// jobrunner runs outside the cluster, there are no owners.
type owners struct {
	pod, controller []meta.OwnerReference
}

// findOwners sets the owners. Without the right to read the jobrunner's Pod, objects have no owner; without
// the right to read its controller, the Pod owns them all.
func (c *Cluster) findOwners(ctx context.Context) {
	if c.self == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.readOwners(ctx); err != nil {
		warning := "the jobrunner's own Pod is not known: when its Deployment is deleted, Pods may be left"
		if c.owners.pod != nil {
			warning = "the Deployment of the jobrunner's own Pod is not known: pods end with this Pod"
		}
		c.Logger.WarnContext(ctx, warning, "pod", c.self, "namespace", c.namespace, "error", err)
	}
}

func (c *Cluster) readOwners(ctx context.Context) error {
	self, err := c.client.core.Pods(c.namespace).Get(ctx, c.self, meta.GetOptions{})
	if err != nil {
		return err
	}
	c.owners.pod = []meta.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: self.Name, UID: self.UID}}
	c.owners.controller = c.owners.pod
	controller := meta.GetControllerOf(self)
	if controller == nil {
		return nil
	}
	if controller.Kind == "ReplicaSet" {
		set, err := c.client.apps.ReplicaSets(c.namespace).Get(ctx, controller.Name, meta.GetOptions{})
		if err != nil {
			return fmt.Errorf("its ReplicaSet: %w", err)
		}
		if owner := meta.GetControllerOf(set); owner != nil {
			controller = owner
		}
	}
	c.owners.controller = []meta.OwnerReference{{APIVersion: controller.APIVersion, Kind: controller.Kind, Name: controller.Name, UID: controller.UID}}
	return nil
}
