//go:build linux && cgo

package nvidia

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// report is an error of a device that the driver reported.
type report struct {
	fault    string
	received time.Time
}

// remedies maps each recovery action of the driver to what has to be done, as text for people.
var remedies = map[uint32]string{
	uint32(nvml.GPU_RECOVERY_ACTION_GPU_RESET):           "it needs a reset (nvidia-smi --gpu-reset)",
	uint32(nvml.GPU_RECOVERY_ACTION_NODE_REBOOT):         "the machine needs a reboot",
	uint32(nvml.GPU_RECOVERY_ACTION_DRAIN_P2P):           "its peers' programs must end",
	uint32(nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET):     "its programs must end, and it needs a reset (nvidia-smi --gpu-reset)",
	uint32(nvml.GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN): "its NVLink domain must be recovered",
}

// checkHealth reads the health of a GPU that responds. If the driver supports recovery actions, only they
// decide: if no action is needed, the GPU is healthy and earlier reports are dropped. On older drivers the
// memory's error counts decide, and a report lasts until the GPU is lost and comes back.
func (r *reader) checkHealth(g *physicalGPU) {
	g.checkedFault = ""
	if action, ok := r.recoveryAction(g.nvmlDevice); ok {
		if action != uint32(nvml.GPU_RECOVERY_ACTION_NONE) {
			remedy, ok := remedies[action]
			if !ok {
				remedy = fmt.Sprintf("the driver requires a recovery (action %d)", action)
			}
			g.checkedFault = remedy
			return
		}
		cutoff := time.Now().Add(-pollInterval) // for earlier reports, the driver has had time to update its recovery action
		if g.lastReport.received.Before(cutoff) {
			g.lastReport = report{}
		}
		for i := range g.devices {
			if g.devices[i].lastReport.received.Before(cutoff) {
				g.devices[i].lastReport = report{}
			}
		}
		return
	}
	if n, ret := g.nvmlDevice.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS && n > 0 {
		g.checkedFault = fmt.Sprintf("%d uncorrectable errors in its memory (ECC): it needs a reset (nvidia-smi --gpu-reset)", n)
	}
	if r.functions["nvmlDeviceGetRemappedRows"] {
		if _, _, _, failed, ret := g.nvmlDevice.GetRemappedRows(); ret == nvml.SUCCESS && failed {
			g.checkedFault = "bad rows of its memory could not be remapped: the card must be replaced"
		}
	}
}

// recoveryAction returns the driver's recovery action; ok is false if the driver can't report one.
func (r *reader) recoveryAction(device nvml.Device) (action uint32, ok bool) {
	if !r.functions["nvmlDeviceGetFieldValues"] {
		return 0, false
	}
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if ret := device.GetFieldValues(values); ret != nvml.SUCCESS || nvml.Return(values[0].NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	return binary.NativeEndian.Uint32(values[0].Value[:]), true
}

const errorEvents = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError

// createEventSet lets the driver report errors of GPUs at once. If that fails, only polling finds faults.
func (r *reader) createEventSet() {
	set, ret := r.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		r.log.Warn("GPU errors are detected only by polling: creating an event set failed", "error", ret)
		return
	}
	r.events = set
}

func (r *reader) register(g *physicalGPU) {
	if r.events == nil {
		return
	}
	supportedEvents, ret := g.nvmlDevice.GetSupportedEventTypes()
	if ret != nvml.SUCCESS || supportedEvents&errorEvents == 0 {
		return
	}
	if ret := g.nvmlDevice.RegisterEvents(supportedEvents&errorEvents, r.events); ret != nvml.SUCCESS {
		r.log.Warn("errors of a GPU are detected only by polling: registering for its events failed", "gpu", g.uuid, "error", ret)
	}
}

// waitEvent waits up to maxEventWait for an event, and reports whether the GPUs must be read again.
func (r *reader) waitEvent() bool {
	if r.events == nil {
		_ = clock.RealSleep(r.life, maxEventWait)
		return false
	}
	event, ret := r.events.Wait(uint32(maxEventWait.Milliseconds()))
	switch ret {
	case nvml.SUCCESS:
		r.record(event)
		return true
	case nvml.ERROR_TIMEOUT:
		return false
	}
	_ = clock.RealSleep(r.life, maxEventWait) // the error may come again at once
	return ret == nvml.ERROR_GPU_IS_LOST
}

func (r *reader) record(event nvml.EventData) {
	fault := ""
	switch event.EventType {
	case nvml.EventTypeXidCriticalError:
		fault = xidFault(event.EventData)
	case nvml.EventTypeDoubleBitEccError:
		fault = "an uncorrectable error in its memory (ECC)"
	}
	if fault == "" {
		return
	}
	uuid, _ := event.Device.GetUUID() // fails if the GPU is lost; then the handle identifies it
	for _, g := range r.gpus {
		if g.uuid != uuid && g.nvmlDevice != event.Device {
			continue
		}
		target := &g.lastReport
		for i, d := range g.devices {
			if id, ok := migInstanceID(d); ok && id == event.GpuInstanceId {
				target = &g.devices[i].lastReport
			}
		}
		*target = report{fault, time.Now()}
	}
}

func migInstanceID(d allocatableDevice) (id uint32, ok bool) {
	if d.MIG == "" || d.device == nil {
		return 0, false
	}
	n, ret := d.device.GetGpuInstanceId()
	return uint32(n), ret == nvml.SUCCESS
}

// restart initializes NVML again, because the driver may have been reloaded.
func (r *reader) restart() {
	r.nvmlMu.Lock()
	r.shutdown()
	ret := r.lib.Init()
	r.nvmlMu.Unlock()
	if ret == nvml.SUCCESS {
		r.readDriver()
		r.createEventSet()
	}
}

// shutdown releases NVML. Errors of an unloaded driver are ignored.
func (r *reader) shutdown() {
	if r.events != nil {
		_ = r.events.Free()
		r.events = nil
	}
	_ = r.lib.Shutdown()
}
