package mgmt

import (
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func (c *call) newPodV2(p store.Pod) podV2 {
	var w podV2
	copyFields(&w, p)
	w.containerV2, w.Cost, w.Reason, w.SSH.Direct = newContainerV2(p.Container), c.PodPrice(p), nilIfEmpty(c.PodReason(p)), directSSH(p)
	w.Actions = convertAll(pod.Actions(p), func(a pod.Action) string { return string(a) })
	w.GlobalNetworking = globalNetworkingV2{Enabled: p.NetworkIP != "", IP: p.NetworkIP}
	if p.Volume.Size > 0 {
		w.Mounts.Persistent = new(persistentV2(p.Volume))
	}
	if p.NetworkVolume != "" {
		w.Mounts.Network = &[]networkMountV2{{p.NetworkVolume, p.Volume.Path}}
	}
	if p.GPU != nil {
		w.GPU = newPodGPUV2(p)
	} else if p.CPU != nil {
		flavor := p.CPU.FlavorIDs[0]
		w.CPU = &cpuV2{flavor, p.CPU.VCPUCount, c.Catalog.Current().CPUMemory(flavor, p.CPU.VCPUCount)}
	}
	if c := p.Cluster; c != nil {
		w.Cluster = &podClusterV2{ID: c.ID, Rank: c.Rank, Role: c.Role, IP: c.IP}
	}
	if p.NetworkIP != "" {
		w.GlobalNetworking.InternalDNS = run.InternalName(p.ID)
	}
	if !p.StartedAt.IsZero() {
		w.StartedAt = new(timestamp(p.StartedAt))
	}
	if p.Status == store.PodRunning {
		w.Runtime = c.newPodRuntimeV2(p)
	}
	return w
}

// newPodGPUV2 shows the whole machine's vCPUs and memory for each pod, or the pod's minimums if they are larger.
func newPodGPUV2(p store.Pod) *podGPUV2 {
	return &podGPUV2{
		ID: p.GPUType(), Count: p.GPU.Count,
		VCPUCount: max(float64(runtime.NumCPU()), float64(p.GPU.MinVCPUPerGPU)*float64(p.GPU.Count)),
		Memory:    max(1, machineMemory(), float64(p.GPU.MinRAMPerGPU)*float64(p.GPU.Count)),
	}
}

// machineMemory is in GB.
var machineMemory = sync.OnceValue(func() float64 { return math.Round(float64(httplimit.MachineMemory())/1e8) / 10 })

// directSSH returns the address of a pod that listens on port 22.
func directSSH(p store.Pod) *sshEndpointV2 {
	for _, port := range p.OpenPorts {
		if port.Private == 22 && port.Protocol == "tcp" && port.Public != 0 {
			ip := pod.IPOf(port)
			return &sshEndpointV2{ip, int64(port.Public), "root", fmt.Sprintf("ssh root@%s -p %d", ip, port.Public)}
		}
	}
	return nil
}

func (c *call) newPodRuntimeV2(p store.Pod) *podRuntimeV2 {
	load := c.Pods.Utilization(p.ID)
	w := &podRuntimeV2{
		Uptime: int64(max(0, c.Clock.Wall().Sub(p.StartedAt)) / time.Second),
		GPUs:   convertAll(load.GPUs, convert[pod.GPUUtilization, podGPUUsageV2]),
		Ports: convertAll(p.OpenPorts, func(o store.PodPort) podPortV2 {
			port := podPortV2{Private: int64(o.Private), Type: o.Protocol}
			if o.Public != 0 {
				port.Public, port.IP = new(int64(o.Public)), new(pod.IPOf(o))
			}
			return port
		}),
	}
	if load.CPU != nil {
		w.CPU = &utilizationV2{*load.CPU}
	}
	if load.Memory != nil {
		w.Memory = &utilizationV2{*load.Memory}
	}
	return w
}

// podsQuery is a page of pods, and whether it includes the members of clusters.
type podsQuery struct {
	pageQuery
	withClusterPods bool
}

func readPodsQuery(q *query) (out podsQuery) {
	out.withClusterPods = q.flag("includeClusterPods")
	out.pageQuery = q.page(fmt.Sprintf("includeClusterPods=%t", out.withClusterPods), maxPage)
	return out
}

func (c *call) listPodsV2(q podsQuery) (out []podV2, next int64, err error) {
	pods, next, err := store.ReadPage[store.Pod](c.ctx(), c.Store, q.Page)
	pods = slices.DeleteFunc(pods, func(p store.Pod) bool { return p.Cluster != nil && !q.withClusterPods })
	return convertAll(pods, c.newPodV2), next, err
}

type podActionBodyV2 struct {
	Action *string `json:"action"`
}

type noContent struct{}

func performPodActionV2(c *call, body podActionBodyV2) (any, error) {
	action := pod.Action(*body.Action)
	if action == pod.Terminate {
		return noContent{}, store.Delete[store.Pod](c.ctx(), c.Store, c.id)
	}
	p, err := c.performAction(action, func(store.Pod) bool { return false })
	return c.newPodV2(p), err
}

func (c *call) podLogsV2(q logStream) (stream logStream, err error) {
	if _, err := c.Store.Pod(c.ctx(), c.id); err != nil {
		return stream, err
	}
	log, ok := c.Pods.Log(c.id)
	if !ok {
		return stream, httpanswer.Refuse(http.StatusNotFound, "the log of pod %q is not here: another node runs it", c.id)
	}
	return q.open(log), nil
}

func (b podBodyV2) build(c *call, tx *store.Tx) (p store.Pod, err error) {
	t, err := podTemplate(tx, b.FromTemplate)
	if err == nil && t != nil {
		err = checkMerged(c.body, *t)
	}
	if err != nil {
		return p, err
	}
	return b.newPod(c, tx, t)
}

// newPod returns a pod from the defaults, the template, which may be nil, and the body.
func (b podBodyV2) newPod(c *call, tx *store.Tx, t *store.Template) (store.Pod, error) {
	p := store.Pod{Container: store.Container{Disk: defaultDisk}, Volume: defaultVolume(), Cloud: *defaultsOf[podBodyV2]().Cloud}
	ssh, jupyter := false, false
	if t != nil {
		p.UseTemplate(*t)
		b.Env = mergedEnv(t.Env, b.Env)
		ssh, jupyter = t.StartSSH, t.StartJupyter
	}
	copyFields(&p, b)
	if err := b.setCommand(&p.Container); err != nil {
		return p, err
	}
	b.applyCompute(&p, t)
	if t != nil && p.GPU != nil { // the body's mounts replace the template's; a CPU pod has no persistent mount
		p.Volume = t.Volume
	}
	if err := b.Mounts.applyTo(&p); err != nil {
		return p, err
	}
	setIfPresent(&ssh, b.StartSSH)
	setIfPresent(&jupyter, b.StartJupyter)
	keys, err := tx.SSHKeys(c.owner)
	injectAccess(&p, ssh, jupyter, keys)
	return p, err
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

// applyCompute sets GPUs or CPUs. Either CUDA member of the body replaces the template's constraint.
func (b podBodyV2) applyCompute(p *store.Pod, t *store.Template) {
	if b.CPU != nil {
		p.CPU = &store.PodCPU{FlavorIDs: []string{b.CPU.ID}, VCPUCount: b.CPU.VCPUCount}
	}
	if b.GPU == nil {
		return
	}
	p.GPU = &store.PodGPU{TypeIDs: []string{b.GPU.ID}, Count: defaultGPUCount}
	if t != nil && b.GPU.AllowedCUDAVersions == nil && b.GPU.MinCUDAVersion == nil {
		p.GPU.AllowedCUDAVersions = t.AllowedCUDAVersions
	}
	copyFields(p.GPU, *b.GPU)
}

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

func (b podBodyV2) update(tx *store.Tx, p *store.Pod) error {
	t, err := podTemplate(tx, b.FromTemplate)
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
	return b.remount(p)
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
