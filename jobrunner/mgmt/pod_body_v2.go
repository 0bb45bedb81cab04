package mgmt

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// build returns a new pod.
func (b podBodyV2) build(tx *store.Tx, sshKeys string) (store.Pod, error) {
	p := podDefaultsV2()
	t, err := b.template(tx)
	if err != nil {
		return p, err
	}
	if t != nil {
		p.UseTemplate(*t)
		b.Env = mergedEnv(t.Env, b.Env)
	}
	copyFields(&p, b)
	if err := b.setCommand(&p.Container); err != nil {
		return p, err
	}
	if err := b.compute(&p, t); err != nil {
		return p, err
	}
	if err := b.storage(&p, t); err != nil {
		return p, err
	}
	ssh, jupyter := t != nil && t.StartSSH, t != nil && t.StartJupyter
	setIfPresent(&ssh, b.StartSSH)
	setIfPresent(&jupyter, b.StartJupyter)
	injectAccess(&p, ssh, jupyter, sshKeys)
	return p, nil
}

func (b podBodyV2) template(tx *store.Tx) (*store.Template, error) {
	return podTemplate(tx, b.FromTemplate)
}

// podTemplate returns the pod template that a body names, or nil.
func podTemplate(tx *store.Tx, id *string) (*store.Template, error) {
	if id == nil {
		return nil, nil
	}
	t, err := tx.Template(*id)
	if err != nil {
		return nil, err
	}
	if t.Serverless {
		return nil, validationError("$.templateId: template '" + t.ID + "' is a serverless template, want one for pods")
	}
	return &t, nil
}

// compute sets GPUs or CPUs. Either CUDA member of the body replaces the template's constraint.
func (b podBodyV2) compute(p *store.Pod, t *store.Template) error {
	switch {
	case (b.GPU == nil) == (b.CPU == nil):
		return store.Refusal("a pod has either GPUs or CPUs: expected exactly one of gpu and cpu")
	case b.CPU != nil:
		p.CPU = &store.PodCPU{FlavorIDs: []string{b.CPU.ID}, VCPUCount: b.CPU.VCPUCount}
		return nil
	}
	p.GPU = &store.PodGPU{TypeIDs: []string{b.GPU.ID}, Count: defaultGPUCount}
	if t != nil && b.GPU.AllowedCUDAVersions == nil && b.GPU.MinCUDAVersion == nil {
		p.GPU.AllowedCUDAVersions = t.AllowedCUDAVersions
	}
	copyFields(p.GPU, *b.GPU)
	return nil
}

// storage sets the mounts. A template has at most a persistent mount. The body's mounts replace it,
// and a CPU pod doesn't get it.
func (b podBodyV2) storage(p *store.Pod, t *store.Template) error {
	if t != nil && p.GPU != nil {
		p.Volume = t.Volume
	}
	return b.Mounts.applyTo(p)
}

// applyTo sets the mount of a new pod.
func (m *podMountsV2) applyTo(p *store.Pod) error {
	if m == nil {
		return nil
	}
	network := m.Network != nil && len(*m.Network) > 0
	switch {
	case m.Persistent != nil && network:
		return errBothMounts
	case m.Persistent != nil:
		p.Volume = store.LocalVolume(*m.Persistent)
	case network:
		mount := (*m.Network)[0]
		p.NetworkVolume, p.Volume = mount.VolumeID, store.LocalVolume{Path: mount.Path}
	}
	return nil
}

const errBothMounts = store.Refusal("mounts.persistent and mounts.network exclude each other: a pod has at most one of them")

// update changes an existing pod.
func (b podBodyV2) update(tx *store.Tx, p *store.Pod, now time.Time) error {
	if err := pod.CheckMember(*p); err != nil {
		return err
	}
	before := *p
	t, err := b.template(tx)
	if err != nil {
		return err
	}
	if t != nil { // its settings apply as if they were in the body
		p.UseTemplate(*t)
		b.Env = mergedEnv(t.Env, b.Env)
	}
	copyFields(p, b)
	if err := b.setCommand(&p.Container); err != nil {
		return err
	}
	if err := b.remount(p); err != nil {
		return err
	}
	return replaceChanged(p, before, now)
}

// remount changes the mount. Its kind and network volume are fixed.
func (b podBodyV2) remount(p *store.Pod) error {
	if b.Mounts == nil {
		return nil
	}
	if network := b.Mounts.Network; network != nil {
		switch {
		case b.Mounts.Persistent != nil:
			return errBothMounts
		case len(*network) == 0:
			return store.Refusal("mounts.network can't be cleared: a pod keeps its mounts")
		case p.NetworkVolume == "":
			return store.Refusal("the pod has no network mount, and the kind of its mounts is fixed: mounts.network can't be set")
		case (*network)[0].VolumeID != p.NetworkVolume:
			return store.Refusal("the network volume of a pod is fixed: expected volumeId " + p.NetworkVolume)
		}
		p.Volume.Path = (*network)[0].Path
	}
	if b.Mounts.Persistent != nil {
		if p.Volume.Size == 0 {
			return store.Refusal("the pod has no persistent mount, and the kind of its mounts is fixed: mounts.persistent can't be set")
		}
		p.Volume = store.LocalVolume(*b.Mounts.Persistent)
	}
	return nil
}
