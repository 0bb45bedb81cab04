//go:build linux && cgo

package nvidia

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// physicalGPU is a GPU of this machine. A lost GPU stays in the inventory, with a fault.
type physicalGPU struct {
	uuid       string
	index      int
	nvmlDevice nvml.Device
	devices    []allocatableDevice

	lostReason   string // why it doesn't respond; "" if it responds
	checkedFault string // fault found by checkHealth; "" if healthy
	lastReport   report // the last error, until it is resolved
}

// allocatableDevice is a whole GPU or a MIG instance.
type allocatableDevice struct {
	gpu.Device
	handle
	lastReport report
}

// refresh polls all GPUs and publishes them as the inventory.
func (r *reader) refresh() {
	count, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		for _, g := range r.gpus {
			g.markLost("the driver does not answer: " + ret.Error())
		}
		r.publish()
		r.restart()
		return
	}
	seen := map[*physicalGPU]bool{}
	for i := range count {
		if g := r.poll(i); g != nil {
			seen[g] = true
		}
	}
	for _, g := range r.gpus {
		if !seen[g] && g.lostReason == "" {
			g.markLost("lost: the driver no longer lists it")
		}
	}
	slices.SortStableFunc(r.gpus, func(a, b *physicalGPU) int { return cmp.Compare(a.index, b.index) })
	r.publish()
}

// poll reads the GPU at an index. It returns nil for an unknown GPU that doesn't respond.
func (r *reader) poll(index int) *physicalGPU {
	device, ret := r.lib.DeviceGetHandleByIndex(index)
	uuid := ""
	if ret == nvml.SUCCESS {
		uuid, ret = device.GetUUID()
	}
	if ret != nvml.SUCCESS {
		i := slices.IndexFunc(r.gpus, func(g *physicalGPU) bool { return g.index == index })
		if i < 0 {
			return nil
		}
		r.gpus[i].markLost("lost: " + ret.Error())
		return r.gpus[i]
	}
	i := slices.IndexFunc(r.gpus, func(g *physicalGPU) bool { return g.uuid == uuid })
	if i < 0 {
		i = len(r.gpus)
		r.gpus = append(r.gpus, &physicalGPU{uuid: uuid, lostReason: "new"}) // registered for events below
	}
	g := r.gpus[i]
	g.index, g.nvmlDevice = index, device
	memory, ret := device.GetMemoryInfo()
	if ret != nvml.SUCCESS && g.devices == nil {
		// The GPU is lost from the start: only its UUID and type are known.
		g.devices = []allocatableDevice{{Device: gpu.Device{UUID: uuid, TypeID: typeID(device)}}}
	}
	if ret != nvml.SUCCESS {
		g.markLost("lost: " + ret.Error())
		return g
	}
	if g.lostReason != "" { // new, or reset
		g.lostReason, g.lastReport = "", report{}
		r.register(g)
	}
	r.checkHealth(g)
	g.devices = r.allocatableDevices(g, int64(memory.Total))
	return g
}

// markLost marks a GPU that doesn't respond.
func (g *physicalGPU) markLost(reason string) {
	g.lostReason = reason
	for i := range g.devices {
		g.devices[i].handle = handle{}
	}
}

func typeID(device nvml.Device) string {
	name, _ := device.GetName() // "" if the driver doesn't report it
	return gpu.CanonicalType(name)
}

// allocatableDevices returns the GPU itself, or its instances in MIG mode.
func (r *reader) allocatableDevices(g *physicalGPU, memory int64) (devices []allocatableDevice) {
	wholeType := typeID(g.nvmlDevice)
	if !r.migEnabled(g.nvmlDevice) {
		whole := gpu.Device{UUID: g.uuid, TypeID: wholeType, Memory: memory}
		return []allocatableDevice{{Device: whole, handle: handle{g.nvmlDevice, g.nvmlDevice}}}
	}
	n, _ := g.nvmlDevice.GetMaxMigDeviceCount() // 0 if the driver doesn't report it
	for i := range n {
		instance, ret := g.nvmlDevice.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS { // no instance has this number
			continue
		}
		uuid, ret := instance.GetUUID()
		if ret != nvml.SUCCESS {
			continue
		}
		d := allocatableDevice{Device: gpu.Device{UUID: uuid, MIG: profile(instance)}, handle: handle{instance, g.nvmlDevice}}
		d.TypeID = gpu.InstanceType(wholeType, d.MIG)
		if memory, ret := instance.GetMemoryInfo(); ret == nvml.SUCCESS {
			d.Memory = int64(memory.Total)
		}
		if i := slices.IndexFunc(g.devices, func(v allocatableDevice) bool { return v.UUID == uuid }); i >= 0 {
			d.lastReport = g.devices[i].lastReport
		}
		devices = append(devices, d)
	}
	return devices
}

func (r *reader) migEnabled(device nvml.Device) bool {
	if slices.ContainsFunc(migFunctions, func(name string) bool { return !r.functions[name] }) {
		return false
	}
	mode, _, ret := device.GetMigMode()
	return ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
}

// profile returns the profile of a MIG instance: the end of its name, or its size if it has no name.
func profile(instance nvml.Device) string {
	name, _ := instance.GetName() // the size is the fallback
	if _, after, ok := strings.Cut(name, " MIG "); ok {
		return after
	}
	size, ret := instance.GetAttributes()
	if ret != nvml.SUCCESS {
		return "unknown"
	}
	return fmt.Sprintf("%dg.%dgb", size.GpuInstanceSliceCount, (size.MemorySizeMB+1023)/1024)
}

// Sample reads a device's load. A MIG instance has the temperature of its GPU. The driver doesn't
// report an instance's utilization and power.
func (r *reader) Sample(uuid string) (gpu.Sample, error) {
	r.nvmlMu.RLock()
	defer r.nvmlMu.RUnlock()
	r.mu.RLock()
	h, ok := r.handles[uuid]
	r.mu.RUnlock()
	s := gpu.UnknownSample
	switch {
	case r.closed:
		return gpu.Sample{}, errors.New("the GPU inventory is closed")
	case !ok:
		return gpu.Sample{}, gpu.UnknownDevice(uuid)
	case h.device == nil:
		return s, nil
	}
	// The older call counts the driver's own memory as used. nvidia-smi doesn't.
	if r.functions["nvmlDeviceGetMemoryInfo_v2"] {
		if memory, ret := h.device.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			s.MemoryUsed = int64(memory.Used)
		}
	} else if memory, ret := h.device.GetMemoryInfo(); ret == nvml.SUCCESS {
		s.MemoryUsed = int64(memory.Used)
	}
	if h.device == h.wholeGPU {
		if rates, ret := h.device.GetUtilizationRates(); ret == nvml.SUCCESS {
			s.Utilization = int(rates.Gpu)
		}
		if power, ret := h.device.GetPowerUsage(); ret == nvml.SUCCESS {
			s.Power = int(power)
		}
	}
	//nolint:staticcheck // the newer call is missing from most drivers
	if celsius, ret := h.wholeGPU.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		s.Temperature = int(celsius)
	}
	return s, nil
}
