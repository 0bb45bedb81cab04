//go:build linux && cgo

package gpu

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// report is an error that the driver reported of a device.
type report struct {
	fault string
	at    time.Time
}

// remedies are what the driver may ask for before a GPU can be used again.
var remedies = map[uint32]string{
	uint32(nvml.GPU_RECOVERY_ACTION_GPU_RESET):           "it needs a reset (nvidia-smi --gpu-reset)",
	uint32(nvml.GPU_RECOVERY_ACTION_NODE_REBOOT):         "the machine needs a reboot",
	uint32(nvml.GPU_RECOVERY_ACTION_DRAIN_P2P):           "its peers' programs must end",
	uint32(nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET):     "its programs must end, and it needs a reset (nvidia-smi --gpu-reset)",
	uint32(nvml.GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN): "its NVLink domain must be recovered",
}

// judge finds what the driver says is wrong with a GPU that answers. Drivers
// that tell what it takes to recover know best: where that is nothing, what was
// reported before is over. With others the memory's error counts say it, and a
// reported error lasts until the GPU is lost and returns.
func (r *reader) judge(g *physical) {
	g.health = ""
	if action, told := r.recovery(g.handle); told {
		if action != uint32(nvml.GPU_RECOVERY_ACTION_NONE) {
			words, ok := remedies[action]
			if !ok {
				words = fmt.Sprintf("the driver asks for its recovery (action %d)", action)
			}
			g.health = words
			return
		}
		over := time.Now().Add(-lookAgain) // the driver had the time to think of it
		if g.reported.at.Before(over) {
			g.reported = report{}
		}
		for i := range g.devices {
			if g.devices[i].reported.at.Before(over) {
				g.devices[i].reported = report{}
			}
		}
		return
	}
	if n, ret := g.handle.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS && n > 0 {
		g.health = fmt.Sprintf("%d uncorrectable errors in its memory (ECC): it needs a reset (nvidia-smi --gpu-reset)", n)
	}
	if r.can["nvmlDeviceGetRemappedRows"] {
		if _, _, _, failed, ret := g.handle.GetRemappedRows(); ret == nvml.SUCCESS && failed {
			g.health = "bad rows of its memory could not be remapped: the card is to be replaced"
		}
	}
}

// recovery is what the driver asks for, if it tells.
func (r *reader) recovery(device nvml.Device) (action uint32, told bool) {
	if !r.can["nvmlDeviceGetFieldValues"] {
		return 0, false
	}
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if ret := device.GetFieldValues(values); ret != nvml.SUCCESS || nvml.Return(values[0].NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	return binary.NativeEndian.Uint32(values[0].Value[:]), true
}

// heard are the events that are listened to.
const heard = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError

// listen makes the set of events. Without one, faults are found when the GPUs
// are next looked at.
func (r *reader) listen() {
	set, ret := r.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		r.log.Warn("errors of GPUs are noticed late: the driver offers no events", "error", ret)
		return
	}
	r.events = set
}

// register adds a GPU to the set.
func (r *reader) register(g *physical) {
	if r.events == nil {
		return
	}
	offered, ret := g.handle.GetSupportedEventTypes()
	if ret != nvml.SUCCESS || offered&heard == 0 {
		return
	}
	if ret := g.handle.RegisterEvents(offered&heard, r.events); ret != nvml.SUCCESS {
		r.log.Warn("errors of a GPU are noticed late: its events can't be heard", "gpu", g.uuid, "error", ret)
	}
}

// hear waits a moment for an event, and tells whether there was one after which
// to look at the GPUs.
func (r *reader) hear() bool {
	if r.events == nil {
		r.waitStopped(listenFor)
		return false
	}
	event, ret := r.events.Wait(uint32(listenFor.Milliseconds()))
	switch ret {
	case nvml.SUCCESS:
		r.note(event)
		return true
	case nvml.ERROR_TIMEOUT:
		return false
	case nvml.ERROR_GPU_IS_LOST:
		r.waitStopped(listenFor) // it may say so again and again
		return true
	default:
		r.waitStopped(listenFor)
		return false
	}
}

// note remembers an error that was reported.
func (r *reader) note(event nvml.EventData) {
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
	uuid, _ := event.Device.GetUUID() // of one that is lost it is the handle that tells
	for _, g := range r.gpus {
		if g.uuid != uuid && g.handle != event.Device {
			continue
		}
		of := &g.reported
		for i, d := range g.devices {
			if id, ret := instanceOf(d); ret && id == event.GpuInstanceId {
				of = &g.devices[i].reported
			}
		}
		*of = report{fault, time.Now()}
	}
}

// instanceOf is the number of the MIG instance that a device is.
func instanceOf(d visible) (id uint32, ok bool) {
	if d.MIG == "" || d.device == nil {
		return 0, false
	}
	n, ret := d.device.GetGpuInstanceId()
	return uint32(n), ret == nvml.SUCCESS
}

// revive starts NVML anew after the driver was reloaded.
func (r *reader) revive() {
	r.mu.Lock()
	r.end()
	ret := r.lib.Init()
	r.mu.Unlock()
	if ret == nvml.SUCCESS {
		r.readDriver()
		r.listen()
	}
}

// end gives up what was had of NVML. That it fails, where the driver is gone,
// changes nothing.
func (r *reader) end() {
	if r.events != nil {
		_ = r.events.Free()
		r.events = nil
	}
	_ = r.lib.Shutdown()
}
