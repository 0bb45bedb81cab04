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
	devices map[string]*utilization
}

type utilization struct {
	at     int64 // number of the last step that is written
	recent [steps]int8
}

func (h *gpuHistory) record(now time.Time, devices []GPU) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.devices == nil {
		h.devices = map[string]*utilization{}
	}
	there := map[string]bool{}
	for _, d := range devices {
		there[d.UUID] = true
		b := h.devices[d.UUID]
		if b == nil {
			b = &utilization{at: stepOf(now) - steps}
			h.devices[d.UUID] = b
		}
		b.roll(now)
		b.recent[b.at%steps] = int8(min(d.Utilization, 100))
	}
	for uuid := range h.devices {
		if !there[uuid] {
			delete(h.devices, uuid)
		}
	}
}

func (b *utilization) roll(now time.Time) {
	at := stepOf(now)
	for b.at = max(b.at, at-steps); b.at < at; {
		b.at++
		b.recent[b.at%steps] = -1
	}
}

// of is a device's past, the oldest first.
func (h *gpuHistory) of(uuid string, now time.Time) []int8 {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.devices[uuid]
	if b == nil {
		return nil
	}
	b.roll(now)
	out := make([]int8, 0, steps)
	for i := b.at - steps + 1; i <= b.at; i++ {
		out = append(out, b.recent[i%steps])
	}
	return out
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
