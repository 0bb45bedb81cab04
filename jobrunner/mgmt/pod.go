package mgmt

import (
	"crypto/rand"
	"maps"
	"reflect"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Variables that startSsh and startJupyter set. The platform's images read them.
const (
	sshVariable     = "PUBLIC_KEY"
	jupyterVariable = "JUPYTER_PASSWORD"
)

// injectAccess sets the variables for SSH and Jupyter. Without keys it doesn't enable SSH.
func injectAccess(p *store.Pod, ssh, jupyter bool, sshKeys []string) {
	env := map[string]string{}
	maps.Copy(env, p.Env)
	if _, isSet := env[sshVariable]; ssh && !isSet && len(sshKeys) > 0 {
		env[sshVariable] = strings.Join(sshKeys, "\n")
	}
	if _, isSet := env[jupyterVariable]; jupyter && !isSet {
		env[jupyterVariable] = rand.Text()
	}
	p.Env = env
}

// podBody is the body of a create or an update of either version.
type podBody interface {
	build(c *call, tx *store.Tx) (store.Pod, error)
	update(tx *store.Tx, p *store.Pod) error
}

func createPod[B podBody](c *call, body B) (store.Pod, error) {
	return store.Build(c.ctx(), c.Store, func(tx *store.Tx) (store.Pod, error) {
		p, err := body.build(c, tx)
		p.Owner = c.owner
		pod.Init(&p, c.FolderID, c.Clock.Wall())
		return p, err
	})
}

// updatePod replaces the container if its settings change. It rejects the replacement if the pod runs and is
// locked, unless the body also unlocks the pod.
func updatePod[B podBody](c *call, body B) (store.Pod, error) {
	return c.Store.UpdatePod(c.ctx(), c.id, func(tx *store.Tx, p *store.Pod) error {
		before := *p
		if err := body.update(tx, p); err != nil || reflect.DeepEqual(before.Settings(), p.Settings()) {
			return err
		}
		return pod.Replace(p, before.Locked && p.Locked, c.Clock.Wall())
	})
}

// performAction performs an action on the path's pod, unless skip reports that it isn't needed.
func (c *call) performAction(a pod.Action, skip func(store.Pod) bool) (store.Pod, error) {
	return c.Store.UpdatePod(c.ctx(), c.id, func(_ *store.Tx, p *store.Pod) error {
		if skip(*p) {
			return nil
		}
		return pod.Do(p, a, c.Clock.Wall())
	})
}
