//go:build linux && cgo

package nvidia

import (
	"errors"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// Sample reads a device's load. A MIG instance has the temperature of its GPU. The driver doesn't
// report an instance's utilization and power.
func (r *reader) Sample(uuid string) (gpu.Sample, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	h, ok := r.handles[uuid]
	switch {
	case r.closed:
		return gpu.Sample{}, errors.New("the GPU inventory is closed")
	case !ok:
		return gpu.Sample{}, gpu.UnknownDevice(uuid)
	case h.device == nil:
		return gpu.Sample{Utilization: -1, MemoryUsed: -1, Power: -1, Temperature: -1}, nil
	}
	s := gpu.Sample{Utilization: -1, MemoryUsed: -1, Power: -1, Temperature: -1}
	// The older call counts the driver's own memory as used. nvidia-smi doesn't.
	if r.functions["nvmlDeviceGetMemoryInfo_v2"] {
		if memory, ret := h.device.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			s.MemoryUsed = int64(memory.Used)
		}
	} else if memory, ret := h.device.GetMemoryInfo(); ret == nvml.SUCCESS {
		s.MemoryUsed = int64(memory.Used)
	}
	if h.device == h.whole {
		if rates, ret := h.device.GetUtilizationRates(); ret == nvml.SUCCESS {
			s.Utilization = int(rates.Gpu)
		}
		if power, ret := h.device.GetPowerUsage(); ret == nvml.SUCCESS {
			s.Power = int(power)
		}
	}
	//nolint:staticcheck // the newer call is missing from most drivers
	if celsius, ret := h.whole.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		s.Temperature = int(celsius)
	}
	return s, nil
}
