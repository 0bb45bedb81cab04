package page

import (
	"cmp"
	"sync"
	"time"
)

// gpuHistory is the utilization of the devices in the last steps, in percent; -1 if it wasn't measured
// or isn't reported.
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

// utilization returns the history of a device, the oldest step first.
func (h *gpuHistory) utilization(uuid string, now time.Time) []int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.devices[uuid]; l != nil {
		return l.past(now)
	}
	return nil
}

// gpusNow returns the devices. Their holders are taken from the workers, because a worker may have got
// or lost a device between the two reads: a device in a worker's row mustn't be free in its own row.
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
		d.Past = p.gpus.utilization(d.UUID, now)
	}
	return out
}
