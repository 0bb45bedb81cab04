package pod

import (
	"cmp"
	"runtime"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func IPOf(p store.PodPort) string { return cmp.Or(p.IP, run.PublishIP) }

// Utilization is the load of a running pod, in percent; nil is unknown.
type Utilization struct {
	CPU, Memory *int64
	GPUs        []GPUUtilization
}

type GPUUtilization struct {
	Util, MemoryUtil *int64
}

// percent returns the part of a whole, or nil if either is unknown.
func percent(part, whole float64) *int64 {
	if part < 0 || whole <= 0 {
		return nil
	}
	return new(int64(min(100*part/whole, 100)))
}

// Utilization returns the utilization of a pod, which is unknown if the pod doesn't run here. CPU is the average
// since the process started, memory and GPUs are current.
func (p *Pods) Utilization(id string) (out Utilization) {
	r := p.find(id)
	if r == nil {
		return out
	}
	r.mu.Lock()
	process, devices, record, start := r.process, r.devices, r.desired, r.processStart
	r.mu.Unlock()
	if process == nil || record == nil {
		return out
	}
	cores := int64(runtime.NumCPU())
	if record.CPU != nil {
		cores = min(cores, record.CPU.VCPUCount)
	}
	usage := process.Usage()
	if usage.CPU > 0 {
		out.CPU = percent(usage.CPU.Seconds(), time.Since(start).Seconds()*float64(max(1, cores))) // processes use real time
	}
	if record.CPU != nil && usage.Memory > 0 {
		out.Memory = percent(float64(usage.Memory), float64(r.pods.Catalog.Current().CPUMemory(record.CPU.FlavorIDs[0], record.CPU.VCPUCount))*(1<<30))
	}
	for _, d := range devices {
		g := GPUUtilization{}
		if s, err := r.pods.Sample(d.UUID); err == nil {
			g = GPUUtilization{percent(float64(s.Utilization), 100), percent(float64(s.MemoryUsed), float64(d.Memory))}
		}
		out.GPUs = append(out.GPUs, g)
	}
	return out
}

func (p *Pods) MountsVolume(volume string) bool {
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
