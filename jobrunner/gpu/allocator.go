package gpu

import (
	"fmt"
	"slices"
	"sync"
)

// Allocator assigns devices to owners, each to one at a time. A request is
// satisfied whole, with healthy devices of one type, or not at all.
//
// Requests that wait for devices in use are queued. Devices that would satisfy the
// first of the queue are reserved for it; where too few are free, so are the free
// devices of the best of its types that the machine has enough of. Later requests
// get the rest. So a request for many GPUs does not starve behind small ones; the
// price is that its reserved devices are idle until enough are released.
type Allocator struct {
	inventory Inventory
	freed     chan struct{}
	stop      chan struct{}
	stopped   sync.WaitGroup

	mu    sync.Mutex
	held  map[string]holding // by UUID
	queue []waiter           // first come, first served
}

type holding struct {
	owner  string
	device Device
}

type waiter struct {
	owner string
	want  Request
}

// holdObserver is an inventory that is notified which devices are in use.
type holdObserver interface{ Hold(uuid string, held bool) }

// NewAllocator gives out the devices of an inventory, which stays the caller's
// to close.
func NewAllocator(inventory Inventory) *Allocator {
	a := &Allocator{
		inventory: inventory, held: map[string]holding{},
		freed: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	a.stopped.Go(func() {
		for {
			select {
			case <-inventory.Changed():
				a.signal()
			case <-a.stop:
				return
			}
		}
	})
	return a
}

// Close stops watching the inventory. No other call may follow.
func (a *Allocator) Close() {
	close(a.stop)
	a.stopped.Wait()
}

// Freed signals that a refused request may succeed now. The signal is buffered
// until it is received, by one receiver.
func (a *Allocator) Freed() <-chan struct{} { return a.freed }

func (a *Allocator) signal() {
	select {
	case a.freed <- struct{}{}:
	default:
	}
}

// Acquire assigns devices to an owner until Release. The error says for people why
// it can't. An owner that is refused because devices are in use is queued, until
// it acquires them, calls Release, or is refused for another reason.
func (a *Allocator) Acquire(want Request, owner string) ([]Device, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if held := a.uuidsOf(owner); len(held) > 0 {
		return nil, fmt.Errorf("%s has %d GPUs already, and must release them before it asks for others", owner, len(held))
	}
	devices := a.inventory.Devices()
	if why := impossible(want, devices, a.inventory.Driver()); why != nil {
		a.dequeue(owner)
		return nil, why
	}
	free := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return d.Fault != "" || a.inUse(d) })
	available := free
	for _, w := range a.queue {
		if w.owner == owner {
			break
		}
		available = without(available, w.reserved(devices, available))
	}
	chosen := choose(want, devices, available)
	if chosen == nil {
		a.enqueue(owner, want)
		return nil, busy(want, devices, free, available)
	}
	a.dequeue(owner)
	for _, d := range chosen {
		a.held[d.UUID] = holding{owner, d}
		a.notify(d.UUID, true)
	}
	return chosen, nil
}

// choose finds devices for a request among the free ones, nil where there are
// not enough of any type.
func choose(want Request, devices, free []Device) []Device {
	for _, t := range typesFor(want, devices) {
		if matching := ofType(want, t, free); len(matching) >= want.count() {
			return matching[:want.count()]
		}
	}
	return nil
}

// reserved are the free devices that later requests can't have.
func (w waiter) reserved(devices, free []Device) []Device {
	if now := choose(w.want, devices, free); now != nil {
		return now
	}
	healthy := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return d.Fault != "" })
	for _, t := range typesFor(w.want, devices) {
		if len(ofType(w.want, t, healthy)) >= w.want.count() {
			return ofType(w.want, t, free)
		}
	}
	return nil
}

func ofType(want Request, typeID string, devices []Device) (matching []Device) {
	for _, d := range devices {
		if d.TypeID == typeID && want.fits(d) {
			matching = append(matching, d)
		}
	}
	return matching
}

func without(devices, removed []Device) []Device {
	return slices.DeleteFunc(slices.Clone(devices), func(d Device) bool {
		return slices.ContainsFunc(removed, func(l Device) bool { return l.UUID == d.UUID })
	})
}

// inUse reports whether a device is in use, whole or in part.
func (a *Allocator) inUse(d Device) bool {
	if _, ok := a.held[d.UUID]; ok {
		return true
	}
	for _, h := range a.held {
		if h.device.Index == d.Index && (h.device.MIG == "") != (d.MIG == "") {
			return true
		}
	}
	return false
}

// enqueue puts an owner at the end of the queue; one that is queued keeps its place.
func (a *Allocator) enqueue(owner string, want Request) {
	for i := range a.queue {
		if a.queue[i].owner == owner {
			a.queue[i].want = want
			return
		}
	}
	a.queue = append(a.queue, waiter{owner, want})
}

// dequeue removes an owner from the queue, and signals the owners behind it.
func (a *Allocator) dequeue(owner string) {
	if i := slices.IndexFunc(a.queue, func(w waiter) bool { return w.owner == owner }); i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
		if i < len(a.queue) {
			a.signal()
		}
	}
}

// Release releases an owner's devices and its place in the queue. An unknown owner
// is ignored.
func (a *Allocator) Release(owner string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dequeue(owner)
	for _, uuid := range a.uuidsOf(owner) {
		delete(a.held, uuid)
		a.notify(uuid, false)
		a.signal()
	}
}

func (a *Allocator) uuidsOf(owner string) (uuids []string) {
	for uuid, h := range a.held {
		if h.owner == owner {
			uuids = append(uuids, uuid)
		}
	}
	return uuids
}

func (a *Allocator) notify(uuid string, held bool) {
	if h, ok := a.inventory.(holdObserver); ok {
		h.Hold(uuid, held)
	}
}

// Held maps the UUIDs of devices in use to their owners.
func (a *Allocator) Held() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]string, len(a.held))
	for uuid, h := range a.held {
		out[uuid] = h.owner
	}
	return out
}

// Waiting lists the queued owners, in the order in which they are served.
func (a *Allocator) Waiting() (owners []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.queue {
		owners = append(owners, w.owner)
	}
	return owners
}
