package view

import (
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// eachGPU visits each device with its sample and its holder, "" if it is free. A value that the device
// doesn't report is -1.
func (v *View) eachGPU(visit func(d gpu.Device, s gpu.Sample, holder string)) {
	held := v.GPUOwners()
	for _, d := range v.Inventory.Devices() {
		sample, err := v.Inventory.Sample(d.UUID)
		if err != nil { // it was removed meanwhile
			sample = gpu.Sample{Utilization: -1, MemoryUsed: -1, Power: -1, Temperature: -1}
		}
		visit(d, sample, held[d.UUID])
	}
}

func (v *View) GPUs() page.GPUs {
	out := page.GPUs{Driver: v.Inventory.Driver(), Simulated: gpu.Simulated(v.Inventory), Devices: []page.GPU{}}
	v.eachGPU(func(d gpu.Device, sample gpu.Sample, holder string) {
		out.Devices = append(out.Devices, page.GPU{Device: d, Sample: sample, Holder: holder})
	})
	return out
}

func (v Metrics) GPUs() (out []metrics.GPU) {
	v.eachGPU(func(d gpu.Device, sample gpu.Sample, holder string) {
		out = append(out, metrics.GPU{Device: d, Sample: sample, Held: holder != ""})
	})
	return out
}
