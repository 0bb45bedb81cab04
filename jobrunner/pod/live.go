package pod

import (
	"cmp"
	"runtime"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// PublicIP is where the ports of pods are published that have no address of their own:
// this machine alone reaches them.
const PublicIP = "127.0.0.1"

// IPOf is where a port is published.
func IPOf(p store.PodPort) string { return cmp.Or(p.IP, PublicIP) }

// InternalName is the name of a pod in the global network.
func InternalName(id string) string { return id + ".runpod.internal" }

// Live is how a pod does that runs, in percent. What is not known is -1.
type Live struct {
	CPU    int
	Memory int
	GPUs   []GPU
}

// GPU is how a pod's GPU does.
type GPU struct {
	Util, MemoryUtil int
}

// Live is how a pod does that runs here.
func (p *Pods) Live(id string) (Live, bool) {
	r := p.find(id)
	if r == nil {
		return Live{}, false
	}
	return r.live()
}

// live compares what the process has used since it started with what it could have.
func (r *runner) live() (Live, bool) {
	r.mu.Lock()
	process, devices, record, began := r.process, r.devices, r.want, r.began
	r.mu.Unlock()
	if process == nil || record == nil {
		return Live{}, false
	}
	out := Live{CPU: -1, Memory: -1, GPUs: []GPU{}}
	cores := int64(runtime.NumCPU())
	if record.CPU != nil {
		cores = min(cores, record.CPU.VCPUCount)
	}
	used := process.Usage()
	if passed := time.Since(began); used.CPU > 0 && passed > 0 { // real time, as processes have it
		out.CPU = int(100 * used.CPU / passed / time.Duration(max(1, cores)))
	}
	if record.CPU != nil && used.Memory > 0 {
		out.Memory = int(100 * float64(used.Memory) / (float64(r.pods.Catalog.Now().CPUMemory(record.CPU.FlavorIDs[0], record.CPU.VCPUCount)) * (1 << 30)))
	}
	for _, d := range devices {
		g := GPU{-1, -1}
		if r.pods.Sample != nil {
			if s, err := r.pods.Sample(d.UUID); err == nil {
				g.Util = s.Utilization
				if s.MemoryUsed >= 0 && d.Memory > 0 {
					g.MemoryUtil = int(100 * s.MemoryUsed / d.Memory)
				}
			}
		}
		out.GPUs = append(out.GPUs, g)
	}
	return out, true
}

// Mounts reports whether a pod that runs has a network volume.
func (p *Pods) Mounts(volume string) bool {
	for _, r := range p.all() {
		r.mu.Lock()
		mounts := r.span != nil && r.span.Pod.NetworkVolume == volume
		r.mu.Unlock()
		if mounts {
			return true
		}
	}
	return false
}
