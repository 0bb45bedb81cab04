package page

import (
	"cmp"
	"sync"
	"time"
)

// gpuHistory is how busy the devices were in the last steps, in percent; -1
// where nobody looked or the device does not tell.
type gpuHistory struct {
	mu      sync.Mutex
	devices map[string]*levels // by UUID
}

func (h *gpuHistory) record(now time.Time, devices []GPU) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.devices
	h.devices = map[string]*levels{}
	for _, d := range devices {
		l := before[d.UUID]
		if l == nil {
			l = new(levels)
			l.fill(now, -1)
		}
		l.roll(now)
		l.recent[l.at%steps] = int32(min(d.Utilization, 100))
		h.devices[d.UUID] = l
	}
}

// of is a device's past, the oldest first.
func (h *gpuHistory) of(uuid string, now time.Time) []int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.devices[uuid]; l != nil {
		return l.past(now)
	}
	return nil
}

// gpusNow shows the devices. A worker may have got or left one between the look
// at the workers and the look at the devices: what the workers say counts, so
// that none is in a worker's row and free in its own.
func (p *Page) gpusNow(workers []Worker) GPUs {
	now := p.Clock.Now()
	holders := map[string]string{}
	for _, w := range workers {
		for _, uuid := range w.Devices {
			holders[uuid] = w.ID
		}
	}
	out := p.Source.GPUs()
	p.gpus.record(now, out.Devices)
	for i := range out.Devices {
		d := &out.Devices[i]
		d.Holder = cmp.Or(holders[d.UUID], d.Holder)
		d.Past = p.gpus.of(d.UUID, now)
	}
	return out
}
