//go:build linux && cgo

package gpu

import (
	"errors"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Sample reads a device's load. A MIG instance has the temperature of its GPU; the
// driver doesn't report its utilization and power.
func (r *reader) Sample(uuid string) (Sample, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	h, ok := r.handles[uuid]
	switch {
	case r.closed:
		return Sample{}, errors.New("the watch over the GPUs has ended")
	case !ok:
		return Sample{}, noDevice(uuid)
	case h.device == nil:
		return Sample{-1, -1, -1, -1}, nil
	}
	s := Sample{-1, -1, -1, -1}
	if memory, ret := h.device.GetMemoryInfo(); ret == nvml.SUCCESS {
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
