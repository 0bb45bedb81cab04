//go:build linux && cgo

package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// physical is a GPU of this machine. One that was seen once stays, with a fault,
// when it is lost.
type physical struct {
	uuid    string
	index   int
	handle  nvml.Device
	devices []visible

	lost     string // why it does not answer; "" while it does
	health   string // what the driver says is wrong with it now
	reported report // until it is known to be over
}

// visible is what a worker can have of a GPU: all of it, or an instance.
type visible struct {
	Device
	handle
	reported report
}

func (g *physical) faultOf(d visible) string {
	return cmp.Or(g.lost, g.health, g.reported.fault, d.reported.fault)
}

// refresh looks at all GPUs, and makes what it sees the inventory.
func (r *reader) refresh() {
	count, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		for _, g := range r.gpus {
			g.lose("the driver does not answer: " + ret.Error())
		}
		r.publish()
		r.revive()
		return
	}
	seen := map[*physical]bool{}
	for i := range count {
		if g := r.look(i); g != nil {
			seen[g] = true
		}
	}
	for _, g := range r.gpus {
		if !seen[g] && g.lost == "" {
			g.lose("lost: the driver does not list it any more")
		}
	}
	slices.SortStableFunc(r.gpus, func(a, b *physical) int { return cmp.Compare(a.index, b.index) })
	r.publish()
}

// look looks at the GPU of an index, nil where that is not known.
func (r *reader) look(index int) *physical {
	device, ret := r.lib.DeviceGetHandleByIndex(index)
	uuid := ""
	if ret == nvml.SUCCESS {
		uuid, ret = device.GetUUID()
	}
	if ret != nvml.SUCCESS {
		i := slices.IndexFunc(r.gpus, func(g *physical) bool { return g.index == index })
		if i < 0 {
			return nil
		}
		r.gpus[i].lose("lost: " + ret.Error())
		return r.gpus[i]
	}
	i := slices.IndexFunc(r.gpus, func(g *physical) bool { return g.uuid == uuid })
	if i < 0 {
		i = len(r.gpus)
		r.gpus = append(r.gpus, &physical{uuid: uuid, lost: "new"})
	}
	g := r.gpus[i]
	g.index, g.handle = index, device
	memory, ret := device.GetMemoryInfo()
	if ret != nvml.SUCCESS && g.devices == nil {
		// One that never answered: all that is known is that it is there.
		g.devices = []visible{{Device: Device{UUID: uuid, TypeID: r.name(device)}, handle: handle{device, device}}}
	}
	if ret != nvml.SUCCESS {
		g.lose("lost: " + ret.Error())
		return g
	}
	if g.lost != "" { // it is new, or was reset
		g.lost, g.reported = "", report{}
		r.register(g)
	}
	r.judge(g)
	g.devices = r.divide(g, int64(memory.Total))
	return g
}

// lose marks a GPU that does not answer.
func (g *physical) lose(why string) {
	g.lost = why
	for i := range g.devices {
		g.devices[i].handle = handle{}
	}
}

func (r *reader) name(device nvml.Device) string {
	name, _ := device.GetName() // "" where it is not told
	return Canonical(name)
}

// divide finds what workers can have of a GPU: in MIG mode its instances, and
// nothing else.
func (r *reader) divide(g *physical, memory int64) (parts []visible) {
	typeID := r.name(g.handle)
	if !r.split(g.handle) {
		whole := Device{UUID: g.uuid, TypeID: typeID, Memory: memory}
		return []visible{{Device: whole, handle: handle{g.handle, g.handle}}}
	}
	n, _ := g.handle.GetMaxMigDeviceCount() // 0 where it can't be told
	for i := range n {
		instance, ret := g.handle.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS { // no instance has this number
			continue
		}
		uuid, ret := instance.GetUUID()
		if ret != nvml.SUCCESS {
			continue
		}
		d := visible{Device: Device{UUID: uuid, MIG: profile(instance)}, handle: handle{instance, g.handle}}
		d.TypeID = instanceType(typeID, d.MIG)
		if memory, ret := instance.GetMemoryInfo(); ret == nvml.SUCCESS {
			d.Memory = int64(memory.Total)
		}
		if i := slices.IndexFunc(g.devices, func(v visible) bool { return v.UUID == uuid }); i >= 0 {
			d.reported = g.devices[i].reported
		}
		parts = append(parts, d)
	}
	return parts
}

func (r *reader) split(device nvml.Device) bool {
	for _, f := range newer[len(newer)-3:] {
		if !r.can[f] {
			return false
		}
	}
	mode, _, ret := device.GetMigMode()
	return ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
}

// profile is that of a MIG instance, which ends its name, or else is written
// from its size.
func profile(instance nvml.Device) string {
	name, _ := instance.GetName() // without it there is the size
	if _, after, ok := strings.Cut(name, " MIG "); ok {
		return after
	}
	size, ret := instance.GetAttributes()
	if ret != nvml.SUCCESS {
		return "unknown"
	}
	return fmt.Sprintf("%dg.%dgb", size.GpuInstanceSliceCount, (size.MemorySizeMB+1023)/1024)
}
