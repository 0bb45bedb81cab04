package kubernetes

import (
	"context"
	"fmt"
	"os"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// selfVariable is the variable with the name of the jobrunner's own Pod. If it isn't set, the
// host name is used, which is the Pod's name unless the Pod uses its node's network.
const selfVariable = "POD_NAME"

// FindSelf returns the name of the Pod that this process runs in, or "".
func FindSelf() string {
	if name := os.Getenv(selfVariable); name != "" {
		return name
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return ""
	}
	name, _ := os.Hostname() // "" is unknown
	return name
}

// owners are the owner references of objects. If the jobrunner doesn't remove an object, the
// cluster removes it with its owner. The jobrunner's Pod owns the objects that end with this
// process. The Pod's controller, such as a Deployment, owns the objects that survive it. If the
// jobrunner runs outside the cluster, there are no owners.
type owners struct {
	pod, controller []meta.OwnerReference
}

// findOwners sets the owners. If it lacks permissions, objects have no owner.
func (c *Cluster) findOwners(ctx context.Context) {
	if c.self == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.readOwners(ctx); err != nil {
		c.Logger.WarnContext(ctx, "the jobrunner's own Pod is not known: when its Deployment is deleted, Pods may be left", "pod", c.self, "namespace", c.Namespace, "error", err)
	}
}

func (c *Cluster) readOwners(ctx context.Context) error {
	self, err := c.client.CoreV1().Pods(c.Namespace).Get(ctx, c.self, meta.GetOptions{})
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
		set, err := c.client.AppsV1().ReplicaSets(c.Namespace).Get(ctx, controller.Name, meta.GetOptions{})
		if err != nil {
			return fmt.Errorf("its ReplicaSet: %w", err)
		}
		if above := meta.GetControllerOf(set); above != nil {
			controller = above
		}
	}
	c.owners.controller = []meta.OwnerReference{{APIVersion: controller.APIVersion, Kind: controller.Kind, Name: controller.Name, UID: controller.UID}}
	return nil
}

// ownersOf returns the owners of a worker's or pod's objects.
func (c *Cluster) ownersOf(s run.Spec) []meta.OwnerReference {
	if s.Deployment() != "" {
		return c.owners.controller
	}
	return c.owners.pod
}
