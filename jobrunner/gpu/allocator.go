package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

// Allocator assigns devices to owners, each device to one owner at a time. It satisfies a request
// as a whole, with healthy devices of one type, or not at all.
//
// A request that has to wait for devices in use is queued, and free devices are reserved for it: as
// many as it needs or, if too few are free, all free devices of its best type with enough healthy
// devices. Later requests get only the other devices. So small requests don't starve a request for
// many GPUs, but its reserved devices are idle until enough others are released.
type Allocator struct {
	inventory Inventory
	freed     chan struct{} // signals that a rejected request may succeed now
	stop      chan struct{}
	watcher   sync.WaitGroup // goroutine that calls onFreed
	onBusy    func(types []string)

	mu          sync.Mutex
	assignments map[string]assignment // by UUID
	queue       []waiter              // first come, first served
	onFreed     []func()
}

type assignment struct {
	owner  string
	device Device
}

type waiter struct {
	owner   string
	request Request
}

// useObserver is an inventory that needs to know which devices are in use.
type useObserver interface{ SetInUse(uuid string, inUse bool) }

// NewAllocator allocates the devices of an inventory. The caller must close the inventory.
func NewAllocator(inventory Inventory) *Allocator {
	a := &Allocator{inventory: inventory, assignments: map[string]assignment{}, freed: make(chan struct{}, 1), stop: make(chan struct{})}
	a.watcher.Go(func() {
		for {
			select {
			case <-inventory.Changed():
			case <-a.freed:
			case <-a.stop:
				return
			}
			a.mu.Lock()
			onFreed := slices.Clone(a.onFreed)
			a.mu.Unlock()
			for _, f := range onFreed {
				f()
			}
		}
	})
	return a
}

// Close stops watching the inventory. No other call may follow.
func (a *Allocator) Close() {
	close(a.stop)
	a.watcher.Wait()
}

// HasGPUs reports whether the machine has GPUs, or a driver that may report some later.
func (a *Allocator) HasGPUs() bool {
	return a != nil && (len(a.inventory.Devices()) > 0 || a.inventory.Driver().Version != "")
}

// OnFreed calls f, in a goroutine of the allocator, whenever a rejected request may succeed now.
func (a *Allocator) OnFreed(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.onFreed = append(a.onFreed, f)
}

// OnBusy calls f whenever a request that isn't a background request has to wait for devices of the types. f must not
// block. OnBusy must be called before the first request.
func (a *Allocator) OnBusy(f func(types []string)) { a.onBusy = f }

// Claim assigns devices to the owner that had them before the deployment restarted. If one of them
// is missing or in use, it assigns none and returns an error. A faulty device doesn't stop a running container.
func (a *Allocator) Claim(uuids []string, owner string) ([]Device, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var claimed []Device
	for _, d := range a.inventory.Devices() {
		if !slices.Contains(uuids, d.UUID) {
			continue
		}
		if a.inUse(d) {
			return nil, fmt.Errorf("GPU %d (%s, %s) is in use", d.Index, d.TypeID, d.UUID)
		}
		claimed = append(claimed, d)
	}
	if len(claimed) < len(uuids) {
		return nil, fmt.Errorf("this machine has only %[2]d of the GPUs %[1]s", strings.Join(uuids, ", "), len(claimed))
	}
	for _, d := range claimed {
		a.assignments[d.UUID] = assignment{owner, d}
		a.reportUse(d.UUID, true)
	}
	return claimed, nil
}

// Acquire assigns devices to an owner until Release. The error tells people why no devices were
// assigned. If the devices are in use, the owner is queued until it acquires them, calls Release,
// or is rejected for another reason.
func (a *Allocator) Acquire(request Request, owner string) ([]Device, error) {
	assigned, err := a.acquire(request, owner, []string{owner})
	if err != nil {
		return nil, err
	}
	return assigned[0], nil
}

// AcquireForMembers assigns devices to all members of a cluster, in order, or to none. The cluster
// is queued as one owner, but each member releases its own devices.
func (a *Allocator) AcquireForMembers(request Request, cluster string, members []string) ([][]Device, error) {
	request.Members = len(members)
	return a.acquire(request, cluster, members)
}

func (a *Allocator) acquire(request Request, requester string, owners []string) ([][]Device, error) {
	assigned, err := a.tryAcquire(request, requester, owners)
	if busy, ok := errors.AsType[*BusyError](err); ok && !request.Background && a.onBusy != nil {
		a.onBusy(busy.Types)
	}
	return assigned, err
}

// tryAcquire assigns the requested number of devices to each owner, or queues the requester.
func (a *Allocator) tryAcquire(request Request, requester string, owners []string) ([][]Device, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, owner := range owners {
		if held := a.uuidsOf(owner); len(held) > 0 {
			return nil, fmt.Errorf("%s has %d GPUs already, and must release them before it asks for others", owner, len(held))
		}
	}
	devices := a.inventory.Devices()
	if refusal := checkSatisfiable(request, devices, a.inventory.Driver()); refusal != nil {
		a.dequeue(requester)
		return nil, refusal
	}
	free := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return d.Fault != "" || a.inUse(d) })
	available := free
	for _, w := range a.queue {
		if w.owner == requester {
			break
		}
		reserved := w.reservedDevices(devices, available)
		available = slices.DeleteFunc(slices.Clone(available), func(d Device) bool { return slices.Contains(reserved, d) })
	}
	chosen := choose(request, devices, available)
	if chosen == nil {
		if !request.Background {
			a.enqueue(requester, request)
		}
		return nil, busyError(request, devices, free, available)
	}
	a.dequeue(requester)
	assigned := slices.Collect(slices.Chunk(chosen, request.count()))
	for i, owner := range owners {
		for _, d := range assigned[i] {
			a.assignments[d.UUID] = assignment{owner, d}
			a.reportUse(d.UUID, true)
		}
	}
	return assigned, nil
}

// choose chooses free devices for a request, or returns nil if no type has enough.
func choose(request Request, devices, free []Device) []Device {
	for _, t := range sufficientTypes(request, devices) {
		if matching := devicesOfType(request, t, free); len(matching) >= request.total() {
			return matching[:request.total()]
		}
	}
	return nil
}

func (w waiter) reservedDevices(devices, free []Device) []Device {
	if chosen := choose(w.request, devices, free); chosen != nil {
		return chosen
	}
	if types := sufficientTypes(w.request, devices); len(types) > 0 {
		return devicesOfType(w.request, types[0], free)
	}
	return nil
}

// sufficientTypes returns the accepted types with enough healthy devices for a request, even if they are in use, the best first.
func sufficientTypes(request Request, devices []Device) []string {
	healthy := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return d.Fault != "" })
	return slices.DeleteFunc(acceptedTypes(request, devices), func(t string) bool {
		return capacity(request, t, healthy) < request.total()
	})
}

func devicesOfType(request Request, typeID string, devices []Device) (matching []Device) {
	for _, d := range devices {
		if d.TypeID == typeID && request.fits(d) {
			matching = append(matching, d)
		}
	}
	return matching
}

func (a *Allocator) inUse(d Device) bool {
	if _, ok := a.assignments[d.UUID]; ok {
		return true
	}
	for _, used := range a.assignments {
		if used.device.Index == d.Index && (used.device.MIG == "") != (d.MIG == "") {
			return true
		}
	}
	return false
}

// enqueue appends an owner to the queue. An owner that is already queued keeps its place.
func (a *Allocator) enqueue(owner string, request Request) {
	if i := slices.IndexFunc(a.queue, func(w waiter) bool { return w.owner == owner }); i >= 0 {
		a.queue[i].request = request
		return
	}
	a.queue = append(a.queue, waiter{owner, request})
}

// dequeue removes an owner from the queue, and signals that its reserved devices may be free.
func (a *Allocator) dequeue(owner string) {
	if i := slices.IndexFunc(a.queue, func(w waiter) bool { return w.owner == owner }); i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
		notify.Signal(a.freed)
	}
}

// Release releases an owner's devices and its place in the queue. It ignores unknown owners.
func (a *Allocator) Release(owner string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dequeue(owner)
	for _, uuid := range a.uuidsOf(owner) {
		delete(a.assignments, uuid)
		a.reportUse(uuid, false)
		notify.Signal(a.freed)
	}
}

func (a *Allocator) uuidsOf(owner string) (uuids []string) {
	for uuid, assigned := range a.assignments {
		if assigned.owner == owner {
			uuids = append(uuids, uuid)
		}
	}
	return uuids
}

func (a *Allocator) reportUse(uuid string, inUse bool) {
	if o, ok := a.inventory.(useObserver); ok {
		o.SetInUse(uuid, inUse)
	}
}

// Owners maps the UUIDs of devices in use to their owners.
func (a *Allocator) Owners() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]string, len(a.assignments))
	for uuid, assigned := range a.assignments {
		out[uuid] = assigned.owner
	}
	return out
}

// OwnersOf reports for each owner of devices whether it has a device of the types.
func (a *Allocator) OwnersOf(types []string) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	owners := map[string]bool{}
	for _, assigned := range a.assignments {
		owners[assigned.owner] = owners[assigned.owner] || slices.Contains(types, assigned.device.TypeID)
	}
	return owners
}

// DeviceState is a device with its load and its owner.
type DeviceState struct {
	Device
	Sample
	Owner string `json:"owner"` // id of the worker or pod that has it, or ""
}

func (a *Allocator) States() []DeviceState {
	owners := a.Owners()
	out := []DeviceState{}
	for _, d := range a.inventory.Devices() {
		sample, err := a.inventory.Sample(d.UUID)
		if err != nil { // the device was removed meanwhile
			sample = UnknownSample
		}
		out = append(out, DeviceState{d, sample, owners[d.UUID]})
	}
	return out
}

// Stock returns the machine's stock of GPUs by type id, 0 if all GPUs of a type are in use or faulty.
func (a *Allocator) Stock() map[string]catalog.Stock {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]catalog.Stock{}
	driver := a.inventory.Driver()
	for _, d := range a.inventory.Devices() {
		s := out[d.TypeID]
		s.Memory = max(s.Memory, (d.Memory+gibibyte-1)/gibibyte) // rounded up: drivers report a little less than the GPU has
		if driver.CUDA != "" {
			s.CUDAVersions = []string{driver.CUDA}
		}
		if d.Fault == "" && !a.inUse(d) {
			s.Count++
		}
		out[d.TypeID] = s
	}
	return out
}
