package pod

import (
	"cmp"
	"runtime"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// IPOf returns the address where a port is published.
func IPOf(p store.PodPort) string { return cmp.Or(p.IP, run.PublicIP) }

// Live is the utilization of a running pod, in percent; -1 is unknown.
type Live struct {
	CPU    int
	Memory int
	GPUs   []GPU
}

// GPU is the utilization of a pod's GPU.
type GPU struct {
	Util, MemoryUtil int
}

// Live returns the utilization of a pod, and false if it doesn't run here.
func (p *Pods) Live(id string) (Live, bool) {
	r := p.find(id)
	if r == nil {
		return Live{}, false
	}
	return r.live()
}

// live compares the use of the process since its start with its limits.
func (r *runner) live() (Live, bool) {
	r.mu.Lock()
	process, devices, record, began := r.process, r.devices, r.desired, r.since
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
	if passed := time.Since(began); used.CPU > 0 && passed > 0 { // processes live in real time
		out.CPU = int(100 * used.CPU / passed / time.Duration(max(1, cores)))
	}
	if record.CPU != nil && used.Memory > 0 {
		out.Memory = int(100 * float64(used.Memory) / (float64(r.pods.Catalog.Now().CPUMemory(record.CPU.FlavorIDs[0], record.CPU.VCPUCount)) * (1 << 30)))
	}
	for _, d := range devices {
		g := GPU{-1, -1}
		if s, err := r.pods.Sample(d.UUID); err == nil {
			g.Util = s.Utilization
			if s.MemoryUsed >= 0 && d.Memory > 0 {
				g.MemoryUtil = int(100 * s.MemoryUsed / d.Memory)
			}
		}
		out.GPUs = append(out.GPUs, g)
	}
	return out, true
}

// Mounts reports whether a running pod mounts a network volume.
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
