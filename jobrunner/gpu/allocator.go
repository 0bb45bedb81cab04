package gpu

import (
	"fmt"
	"slices"
	"sync"
)

// Allocator gives devices to owners, each to one at a time. A request is met
// whole, with healthy devices of one type, or not at all.
//
// Requests that wait for devices in use stand in line. What the first in line
// could have now is kept for it; where that is not enough, so are the free
// devices of the best of its types that the machine has enough of. Requests
// behind it get what is left. So a request for many GPUs is met once enough of
// them were released, however many small ones come meanwhile; the price is that
// devices stand idle until then.
type Allocator struct {
	inventory Inventory
	freed     chan struct{}
	stop      chan struct{}
	stopped   sync.WaitGroup

	mu   sync.Mutex
	held map[string]holding // by UUID
	line []waiting          // the first to come first
}

type holding struct {
	owner  string
	device Device
}

type waiting struct {
	owner string
	want  Request
}

// holder is an inventory that wants to know which devices are in use.
type holder interface{ Hold(uuid string, held bool) }

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
				a.hint()
			case <-a.stop:
				return
			}
		}
	})
	return a
}

// Close ends the watch over the inventory. No other call may follow.
func (a *Allocator) Close() {
	close(a.stop)
	a.stopped.Wait()
}

// Freed is a hint to the one who listens that a request that was refused may be
// met now. It stays until it is taken.
func (a *Allocator) Freed() <-chan struct{} { return a.freed }

func (a *Allocator) hint() {
	select {
	case a.freed <- struct{}{}:
	default:
	}
}

// Acquire gives an owner the devices that it asks for, until Release. The error
// says, for people, why not. An owner that is refused because devices are in
// use stands in line from then on, and leaves it by Release, or when it is
// refused for another reason.
func (a *Allocator) Acquire(want Request, owner string) ([]Device, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if has := a.of(owner); len(has) > 0 {
		return nil, fmt.Errorf("%s has %d GPUs already, and must release them before it asks for others", owner, len(has))
	}
	devices := a.inventory.Devices()
	if why := impossible(want, devices, a.inventory.Driver()); why != nil {
		a.leave(owner)
		return nil, why
	}
	free := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return d.Fault != "" || a.taken(d) })
	left := free
	for _, w := range a.line {
		if w.owner == owner {
			break
		}
		left = without(left, w.keeps(devices, left))
	}
	given := choose(want, devices, left)
	if given == nil {
		a.wait(owner, want)
		return nil, busy(want, devices, free, left)
	}
	a.leave(owner)
	for _, d := range given {
		a.held[d.UUID] = holding{owner, d}
		a.tell(d.UUID, true)
	}
	return given, nil
}

// choose finds devices for a request among the free ones, nil where there are
// not enough of any type.
func choose(want Request, devices, free []Device) []Device {
	for _, t := range typesFor(want, devices) {
		if of := ofType(want, t, free); len(of) >= want.count() {
			return of[:want.count()]
		}
	}
	return nil
}

// keeps are the free devices that are not for those who come after.
func (w waiting) keeps(devices, free []Device) []Device {
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

func ofType(want Request, typeID string, devices []Device) (of []Device) {
	for _, d := range devices {
		if d.TypeID == typeID && want.fits(d) {
			of = append(of, d)
		}
	}
	return of
}

func without(devices, less []Device) []Device {
	return slices.DeleteFunc(slices.Clone(devices), func(d Device) bool {
		return slices.ContainsFunc(less, func(l Device) bool { return l.UUID == d.UUID })
	})
}

// taken reports whether a device is in use, whole or in part.
func (a *Allocator) taken(d Device) bool {
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

// wait puts an owner at the end of the line, or leaves it where it stands.
func (a *Allocator) wait(owner string, want Request) {
	for i := range a.line {
		if a.line[i].owner == owner {
			a.line[i].want = want
			return
		}
	}
	a.line = append(a.line, waiting{owner, want})
}

// leave takes an owner out of the line, and tells those behind it.
func (a *Allocator) leave(owner string) {
	if i := slices.IndexFunc(a.line, func(w waiting) bool { return w.owner == owner }); i >= 0 {
		a.line = slices.Delete(a.line, i, i+1)
		if i < len(a.line) {
			a.hint()
		}
	}
}

// Release takes back what an owner has and its place in line. An owner that is
// not known is none to release.
func (a *Allocator) Release(owner string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leave(owner)
	for _, uuid := range a.of(owner) {
		delete(a.held, uuid)
		a.tell(uuid, false)
		a.hint()
	}
}

func (a *Allocator) of(owner string) (uuids []string) {
	for uuid, h := range a.held {
		if h.owner == owner {
			uuids = append(uuids, uuid)
		}
	}
	return uuids
}

func (a *Allocator) tell(uuid string, held bool) {
	if h, ok := a.inventory.(holder); ok {
		h.Hold(uuid, held)
	}
}

// Held says who has which device, by UUID.
func (a *Allocator) Held() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]string, len(a.held))
	for uuid, h := range a.held {
		out[uuid] = h.owner
	}
	return out
}

// Waiting are the owners in line, the first to be served first.
func (a *Allocator) Waiting() (owners []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.line {
		owners = append(owners, w.owner)
	}
	return owners
}
