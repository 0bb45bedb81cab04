package mgmt

import (
	"crypto/rand"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Variables that startSsh and startJupyter set. The platform's images read them.
const (
	sshVariable     = "PUBLIC_KEY"
	jupyterVariable = "JUPYTER_PASSWORD"
)

// injectAccess sets the variables for SSH and Jupyter. Without keys it doesn't enable SSH.
func injectAccess(p *store.Pod, ssh, jupyter bool, sshKeys string) {
	env := map[string]string{}
	maps.Copy(env, p.Env)
	if _, own := env[sshVariable]; ssh && !own && sshKeys != "" {
		env[sshVariable] = sshKeys
	}
	if _, own := env[jupyterVariable]; jupyter && !own {
		env[jupyterVariable] = rand.Text()
	}
	p.Env = env
}

// sshKeys returns the owner's public keys, one per line.
func (c *call) sshKeys() (string, error) {
	keys, err := c.Store.SSHKeys(c.ctx(), c.owner)
	return strings.Join(keys, "\n"), err
}

// replaceChanged replaces a pod's container if the change affects it. It fails if the pod is locked.
func replaceChanged(p *store.Pod, before store.Pod, now time.Time) error {
	if reflect.DeepEqual(before.Settings(), p.Settings()) {
		return nil
	}
	return pod.Replace(p, before.Locked && p.Locked, now)
}

func (c *call) hourlyPrice(p store.Pod) float64 {
	if !p.Status.Active() {
		return 0
	}
	return c.PodPrice(p)
}

func (c *call) createPod(build func(tx *store.Tx) (store.Pod, error)) (store.Pod, error) {
	created, err := c.Store.CreatePods(c.ctx(), func(tx *store.Tx) ([]store.Pod, error) {
		p, err := build(tx)
		if err != nil {
			return nil, err
		}
		p.Owner = c.owner
		pod.Create(&p, c.Machine, c.Clock.Wall())
		return []store.Pod{p}, nil
	})
	if err != nil {
		return store.Pod{}, err
	}
	return created[0], nil
}

// act performs an action on the path's pod, unless skip reports that it isn't needed.
func (c *call) act(a pod.Action, skip func(store.Pod) bool) (store.Pod, error) {
	return c.Store.UpdatePod(c.ctx(), c.id, func(_ *store.Tx, p *store.Pod) error {
		if err := pod.CheckMember(*p); err != nil || skip(*p) {
			return err
		}
		return pod.Do(p, a, c.Clock.Wall())
	})
}

func (c *call) deletePod() error {
	return c.Store.DeletePod(c.ctx(), c.id, pod.CheckMember)
}
