package kubernetes

import (
	"context"
	"fmt"
	"os"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selfVariable names the Pod that a jobrunner runs in. Where it is not set, a process in a
// cluster takes its host's name, which is that of its Pod unless the Pod has the network
// of its node.
const selfVariable = "POD_NAME"

// FindSelf is the name of the Pod that this process runs in; "": it runs in none.
func FindSelf() string {
	if name := os.Getenv(selfVariable); name != "" {
		return name
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return ""
	}
	name, _ := os.Hostname() // "" is an unknown one
	return name
}

// owners are what the cluster removes objects with, when the jobrunner does not do it
// itself: what belongs to a run with the jobrunner's own Pod, what outlives runs with its
// Deployment. Where the jobrunner runs outside, they have none.
type owners struct {
	run, deployment []meta.OwnerReference
}

// findOwners looks for them. Without the right to, objects have no owner.
func (c *Cluster) findOwners(ctx context.Context) {
	if c.Self == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.lookForOwners(ctx); err != nil {
		c.Logger.WarnContext(ctx, "the jobrunner's own Pod is not known: when its Deployment is deleted, Pods may be left", "pod", c.Self, "namespace", c.Namespace, "error", err)
	}
}

func (c *Cluster) lookForOwners(ctx context.Context) error {
	self, err := c.client.CoreV1().Pods(c.Namespace).Get(ctx, c.Self, meta.GetOptions{})
	if err != nil {
		return err
	}
	c.owners.run = []meta.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: self.Name, UID: self.UID}}
	c.owners.deployment = c.owners.run
	controller := meta.GetControllerOf(self)
	if controller == nil {
		return nil
	}
	if controller.Kind == "ReplicaSet" {
		set, err := c.client.AppsV1().ReplicaSets(c.Namespace).Get(ctx, controller.Name, meta.GetOptions{})
		if err != nil {
			return fmt.Errorf("its ReplicaSet: %w", err)
		}
		if above := meta.GetControllerOf(set); above != nil {
			controller = above
		}
	}
	c.owners.deployment = []meta.OwnerReference{{APIVersion: controller.APIVersion, Kind: controller.Kind, Name: controller.Name, UID: controller.UID}}
	return nil
}

// ownersOf are those of a workload's Pod.
func (c *Cluster) ownersOf(w Workload) []meta.OwnerReference {
	if w.Pod != nil && w.Pod.Deployment != "" {
		return c.owners.deployment
	}
	return c.owners.run
}
