package gpu_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

func newAllocator(t *testing.T, yaml string) *gpu.Allocator {
	a := gpu.NewAllocator(newInventory(t, yaml))
	t.Cleanup(a.Close)
	return a
}

func request(count int, types ...string) gpu.Request { return gpu.Request{Types: types, Count: count} }

// indexes returns the indexes of devices, or the error's text.
func indexes(devices []gpu.Device, err error) string {
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, d := range devices {
		out = append(out, strings.TrimSpace(fmt.Sprint(d.Index, " ", d.MIG)))
	}
	return strings.Join(out, ",")
}

const (
	l4     = "NVIDIA L4"
	h200   = "NVIDIA H200"
	l40s   = "NVIDIA L40S"
	mig    = "NVIDIA H200 MIG 1g.18gb"
	mixed  = "gpus: [{type: NVIDIA L4, count: 2}, {type: NVIDIA H200, count: 3}, {type: NVIDIA H200, mig: [1g.18gb, 1g.18gb]}]"
	faulty = "gpus: [{type: NVIDIA L4}, {type: NVIDIA L4, fault: it smokes}, {type: NVIDIA H200}]"
)

// TestPlacement makes the requests of each row on one machine, in order.
func TestPlacement(t *testing.T) {
	type step struct {
		request gpu.Request
		want    string
	}
	for name, c := range map[string]struct {
		machine string
		steps   []step
	}{
		"priority order": {mixed, []step{
			{request(1, h200, l4), "2"}, {request(1, l4, h200), "0"}, {request(2, l4, h200), "3,4"}, {request(1, l40s, l4), "1"},
			{request(1, l4, h200), "all of this machine's 2 × NVIDIA L4 and 3 × NVIDIA H200 are in use"},
		}},
		"priority order, then any": {mixed, []step{
			{gpu.Request{Types: []string{l40s, h200}, OrAny: true, Count: 3}, "2,3,4"}, {gpu.Request{Types: []string{h200}, OrAny: true}, "5 1g.18gb"},
		}},
		"any type: the smallest that fits": {mixed, []step{
			{request(1), "5 1g.18gb"}, {request(2), "0,1"}, {request(3), "2,3,4"}, {request(0), "5 1g.18gb"}, {request(1), "all of this machine's 2 × NVIDIA L4, 3 × NVIDIA H200 and 2 × NVIDIA H200 MIG 1g.18gb are in use"},
		}},
		"all of one type": {mixed, []step{
			{request(4), "a worker asks for 4 GPUs of one type, and this machine has 2 × NVIDIA L4, 3 × NVIDIA H200 and 2 × NVIDIA H200 MIG 1g.18gb"},
			{request(3, l4), "a worker asks for 3 GPUs of one type, and this machine has 2 × NVIDIA L4"},
		}},
		"MIG instances are a type, one at a time": {mixed, []step{
			{request(1, mig), "5 1g.18gb"},
			{request(2, mig), "a worker asks for 2 GPUs, and a program can use one MIG instance only; this machine has 2 × NVIDIA H200 MIG 1g.18gb"},
			{request(1, mig), "5 1g.18gb"}, {request(1, mig), "all of this machine's 2 × NVIDIA H200 MIG 1g.18gb are in use"},
		}},
		"a split GPU can't be acquired as a whole": {"gpus: [{type: NVIDIA H200, mig: [1g.18gb]}, {type: NVIDIA H200, mig: []}]", []step{
			{request(1, h200), "this machine has no NVIDIA H200; it has 1 × NVIDIA H200 MIG 1g.18gb"},
		}},
		"a type that the machine lacks": {"gpus: [{type: NVIDIA H200, count: 2}]", []step{
			{request(1, l40s), "this machine has no NVIDIA L40S; it has 2 × NVIDIA H200"},
			{request(1, l40s, l4, "Voodoo"), "this machine has no NVIDIA L40S, NVIDIA L4 or Voodoo; it has 2 × NVIDIA H200"},
			{gpu.Request{Accept: func(string) bool { return false }}, "the catalog has no stock of this machine's GPUs: 2 × NVIDIA H200"},
		}},
		"a machine without GPUs": {"gpus: []", []step{{request(1), "no GPU was found"}, {request(1, l4), "no GPU was found"}}},
		"too few are free": {"gpus: [{type: NVIDIA L4, count: 2}]", []step{
			{request(1), "0"}, {request(2), "a worker asks for 2 GPUs of one type, and only 1 is free (this machine has 2 × NVIDIA L4)"},
		}},
		"a machine with one GPU": {"gpus: [{type: NVIDIA L4}]", []step{{request(1), "0"}, {request(1), "this machine's NVIDIA L4 is in use"}}},
		"unhealthy devices are not acquired": {faulty, []step{
			{request(2, l4), "too few healthy GPUs: GPU 1 (NVIDIA L4, UUID-1) can't be used: it smokes"},
			{request(1, l4), "0"},
			{request(1, l4), "all of this machine's 2 × NVIDIA L4 are in use; GPU 1 (NVIDIA L4, UUID-1) can't be used: it smokes"},
			{request(1, l4, h200), "2"},
		}},
		"spellings of the catalog": {"gpus: [{type: NVIDIA A30}, {type: NVIDIA A30}, {type: NVIDIA GeForce RTX 3080 Ti}]", []step{
			{request(1, "NVIDIA  A30"), "0"}, {request(1, "NVIDIA RTX A30"), "1"}, {request(1, "NVIDIA GeForce RTX 3080TI"), "2"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inventory := newInventory(t, c.machine)
			a := gpu.NewAllocator(inventory)
			defer a.Close()
			for i, step := range c.steps {
				owner := fmt.Sprint("w", i)
				got := indexes(a.Acquire(step.request, owner))
				for _, d := range inventory.Devices() {
					got = strings.ReplaceAll(got, d.UUID, fmt.Sprint("UUID-", d.Index))
				}
				must.Equal(t, got, step.want, i, step.request)
				if slices.Contains(a.Queue(), owner) {
					a.Release(owner)
				}
			}
		})
	}
}

// Allowed versions are exact, the minimum is a lower bound, and both compare as numbers.
func TestCUDA(t *testing.T) {
	for _, c := range []struct {
		driver  string
		request gpu.Request
		want    string
	}{
		{"12.10", gpu.Request{MinimumCUDA: "12.9"}, "0"},
		{"12.9", gpu.Request{MinimumCUDA: "12.9"}, "0"},
		{"12.9", gpu.Request{MinimumCUDA: "12.10"}, "CUDA is too old: this machine's driver 570.86.15 supports CUDA 12.9, and the endpoint asks for at least 12.10: update the driver, or lower the minimum"},
		{"13.0", gpu.Request{MinimumCUDA: "12.8"}, "0"},
		{"13.0", gpu.Request{MinimumCUDA: "13"}, "0"},
		{"12.8", gpu.Request{CUDA: []string{"12.4", "12.8"}}, "0"},
		{"12.8", gpu.Request{CUDA: []string{"12.4", "12.08"}}, "0"},
		{"13.0", gpu.Request{CUDA: []string{"12.4", "12.8"}}, "this machine's driver 570.86.15 reports CUDA 13.0, and the endpoint allows only 12.4, 12.8: allow 13.0, or set a minimum instead"},
		{"12.10", gpu.Request{CUDA: []string{"12.1"}}, "this machine's driver 570.86.15 reports CUDA 12.10, and the endpoint allows only 12.1: allow 12.10, or set a minimum instead"},
	} {
		a := newAllocator(t, "driver: {cuda: "+c.driver+"}\ngpus: [{type: NVIDIA L4}]")
		must.Equal(t, indexes(a.Acquire(c.request, "w")), c.want, c.driver, "for", c.request)
	}
	// A missing type is reported before the CUDA version.
	a := newAllocator(t, "gpus: [{type: NVIDIA L4}]")
	must.Equal(t, indexes(a.Acquire(gpu.Request{Types: []string{l40s}, MinimumCUDA: "99.0"}, "w")), "this machine has no NVIDIA L40S; it has 1 × NVIDIA L4")
}

// Later small requests don't overtake a request for all GPUs of a type.
func TestFirstInQueueIsNotStarved(t *testing.T) {
	a := newAllocator(t, "gpus: [{type: NVIDIA H200, count: 4}, {type: NVIDIA L4}]")
	expect := func(want, got string) {
		t.Helper()
		must.Require(t, got == want, "got", got, "want", want)
	}
	for i := range 3 {
		expect(fmt.Sprint(i), indexes(a.Acquire(request(1, h200), fmt.Sprint("small", i))))
	}
	expect("a worker asks for 4 GPUs of one type, and only 1 is free (this machine has 4 × NVIDIA H200)", indexes(a.Acquire(request(4, h200), "large")))
	expect("the free GPUs of this machine's 4 × NVIDIA H200 are reserved for a request that has waited longer", indexes(a.Acquire(request(1, h200), "late")))
	expect("4", indexes(a.Acquire(request(1, h200, l4), "flexible"))) // the large request can't use this type
	expect("large late", strings.Join(a.Queue(), " "))
	for i := range 3 {
		a.Release(fmt.Sprint("small", i))
		expect("the free GPUs of this machine's 4 × NVIDIA H200 are reserved for a request that has waited longer", indexes(a.Acquire(request(1, h200), "late")))
	}
	expect("0,1,2,3", indexes(a.Acquire(request(4, h200), "large")))
	expect("all of this machine's 4 × NVIDIA H200 are in use", indexes(a.Acquire(request(1, h200), "late")))
	a.Release("large")
	expect("0", indexes(a.Acquire(request(1, h200), "late")))
	expect("", strings.Join(a.Queue(), " "))
}

// An owner that leaves the queue has no reserved devices any more, and OnFreed reports this.
func TestLeavingTheQueue(t *testing.T) {
	a := newAllocator(t, "gpus: [{type: NVIDIA L4, count: 2}]")
	a.Acquire(request(1), "first")
	a.Acquire(request(2), "large")
	must.Require(t, must.Err(a.Acquire(request(1), "small")) != nil, "a reserved device was acquired")
	freed := onFreed(a)
	a.Release("large")
	<-freed
	must.Equal(t, indexes(a.Acquire(request(1), "small")), "1")

	// A changed request keeps its place, and an unsatisfiable request loses it.
	a.Acquire(request(2), "changing")
	a.Acquire(request(1), "behind")
	a.Acquire(request(1), "changing")
	must.Equal(t, strings.Join(a.Queue(), " "), "changing behind", "the queue")
	a.Acquire(request(3), "changing")
	must.Equal(t, strings.Join(a.Queue(), " "), "behind", "the queue")
	must.Equal(t, indexes(a.Acquire(request(1), "small")), "small has 1 GPUs already, and must release them before it asks for others")
	a.Release("nobody")
}

func onFreed(a *gpu.Allocator) <-chan struct{} {
	freed := make(chan struct{}, 1)
	a.OnFreed(func() { notify.Signal(freed) })
	return freed
}

func TestRecoveredDeviceIsFreed(t *testing.T) {
	inventory := newFakeInventory(gpu.Device{UUID: "GPU-0", TypeID: l4, Fault: "lost"})
	a := gpu.NewAllocator(inventory)
	defer a.Close()
	must.Require(t, must.Err(a.Acquire(request(1), "w")) != nil, "a lost device was acquired")
	freed := onFreed(a)
	inventory.setFault(0, "")
	<-freed
	must.Equal(t, indexes(a.Acquire(request(1), "w")), "0")
}

// A GPU's new devices are in use if its MIG mode changes while a worker uses it.
func TestSplitDeviceIsInUse(t *testing.T) {
	wholeDevice := gpu.Device{UUID: "GPU-0", TypeID: h200, Memory: 2}
	migDevice := gpu.Device{UUID: "MIG-0", TypeID: mig, MIG: "1g.18gb", Memory: 1}
	for _, c := range []struct{ held, requested gpu.Device }{{wholeDevice, migDevice}, {migDevice, wholeDevice}} {
		a := gpu.NewAllocator(newFakeInventory(wholeDevice, migDevice))
		defer a.Close()
		must.Do(a.Acquire(request(1, c.held.TypeID), "w"))(t)
		must.Equal(t, indexes(a.Acquire(request(1, c.requested.TypeID), "v")), "this machine's "+c.requested.TypeID+" is in use")
	}
}

func TestStock(t *testing.T) {
	a := newAllocator(t, "gpus: [{type: NVIDIA L4, count: 2}, {type: Tesla T4, fault: lost}, {type: NVIDIA H200, mig: [1g.18gb, 1g.18gb]}]")
	a.Acquire(request(1, l4), "w")
	a.Acquire(request(1, mig), "v")
	cuda := []string{"12.8"}
	must.Equal(t, a.Stock(), map[string]catalog.Stock{
		l4: {Count: 1, Memory: 24, CUDAVersions: cuda}, "Tesla T4": {Memory: 16, CUDAVersions: cuda}, mig: {Count: 1, Memory: 18, CUDAVersions: cuda},
	})
}

// fakeInventory is an inventory whose devices a test makes fail and recover.
type fakeInventory struct {
	mu      sync.Mutex
	devices []gpu.Device
	changed chan struct{}
	inUse   map[string]bool
}

func newFakeInventory(devices ...gpu.Device) *fakeInventory {
	return &fakeInventory{devices: devices, changed: make(chan struct{}, 1), inUse: map[string]bool{}}
}

func (f *fakeInventory) Driver() gpu.Driver                { return gpu.Driver{Version: "1", CUDA: "12.8"} }
func (f *fakeInventory) Changed() <-chan struct{}          { return f.changed }
func (f *fakeInventory) Sample(string) (gpu.Sample, error) { return gpu.Sample{}, nil }
func (f *fakeInventory) Close()                            {}
func (f *fakeInventory) SetInUse(uuid string, inUse bool)  { f.inUse[uuid] = inUse }
func (f *fakeInventory) Devices() []gpu.Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.devices)
}

func (f *fakeInventory) setFault(i int, fault string) {
	f.mu.Lock()
	f.devices[i].Fault = fault
	f.mu.Unlock()
	notify.Signal(f.changed)
}

// Under random requests, releases and faults no device has two owners or leaks, and no request is partly satisfied.
func TestDevicesHaveOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var devices []gpu.Device
		for i := range rapid.IntRange(0, 8).Draw(t, "gpus") {
			switch kind := rapid.SampledFrom([]string{l4, h200, "split"}).Draw(t, "kind"); kind {
			case "split":
				for m := range rapid.IntRange(0, 3).Draw(t, "instances") {
					devices = append(devices, gpu.Device{UUID: fmt.Sprint("MIG-", i, m), Index: i, TypeID: mig, MIG: "1g.18gb", Memory: 18})
				}
			default:
				devices = append(devices, gpu.Device{UUID: fmt.Sprint("GPU-", i), Index: i, TypeID: kind, Memory: int64(len(kind))})
			}
		}
		inventory := newFakeInventory(devices...)
		a := gpu.NewAllocator(inventory)
		defer a.Close()
		acquired := map[string][]gpu.Device{}
		owners := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		types := rapid.SliceOfN(rapid.SampledFrom([]string{l4, h200, mig, l40s}), 0, 3)
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				owner, want := owners.Draw(t, "owner"), request(rapid.IntRange(0, 4).Draw(t, "count"), types.Draw(t, "types")...)
				got, err := a.Acquire(want, owner)
				if err != nil {
					must.Require(t, len(got) == 0, "devices and an error")
					return
				}
				must.Require(t, len(acquired[owner]) == 0, owner, "got devices twice")
				must.Require(t, len(got) == max(1, want.Count), "a request got", len(got), "of", want.Count, "devices")
				for _, d := range got {
					must.Require(t, d.Fault == "" && d.TypeID == got[0].TypeID && (len(want.Types) == 0 || slices.Contains(want.Types, d.TypeID)), "the request", want, "got the device", d)
				}
				acquired[owner] = got
			},
			"release": func(t *rapid.T) {
				owner := owners.Draw(t, "owner")
				a.Release(owner)
				delete(acquired, owner)
				must.Require(t, !slices.Contains(a.Queue(), owner), owner, "is still queued")
			},
			"fail or recover": func(t *rapid.T) {
				if len(devices) > 0 {
					inventory.setFault(rapid.IntRange(0, len(devices)-1).Draw(t, "device"), rapid.SampledFrom([]string{"", "lost"}).Draw(t, "fault"))
				}
			},
			"": func(t *rapid.T) {
				assigned := a.Owners()
				count := 0
				for owner, devices := range acquired {
					for _, d := range devices {
						count++
						must.Require(t, assigned[d.UUID] == owner && inventory.inUse[d.UUID], d.UUID, "is", assigned[d.UUID], "'s, want", owner)
					}
				}
				must.Require(t, count == len(assigned), len(assigned), "devices are in use, and", count, "were acquired")
			},
		})
		// After all releases every healthy device is free.
		for _, owner := range []string{"a", "b", "c", "d", "e"} {
			a.Release(owner)
		}
		must.Require(t, len(a.Owners()) == 0 && len(a.Queue()) == 0, "after all releases the owners are", a.Owners(), "and the queue is", a.Queue())
		free := int64(0)
		for _, s := range a.Stock() {
			free += s.Count
		}
		for _, d := range inventory.Devices() {
			if d.Fault == "" {
				free--
			}
		}
		must.Require(t, free == 0, -free, "healthy devices are not in stock")
	})
}

// Claim assigns all devices that an owner had before, even if they are faulty now, or none.
func TestClaim(t *testing.T) {
	inventory := newInventory(t, "gpus: [{type: NVIDIA L4, count: 3}, {type: NVIDIA L4, fault: it is lost}]")
	a := gpu.NewAllocator(inventory)
	defer a.Close()
	var uuids []string
	for _, d := range inventory.Devices() {
		uuids = append(uuids, d.UUID)
	}
	got, err := a.Claim([]string{uuids[0], uuids[3]}, "p")
	must.Require(t, err == nil && len(got) == 2 && a.Owners()[uuids[0]] == "p" && a.Owners()[uuids[3]] == "p", "p claimed", got, err, "the owners are", a.Owners())
	for reason, claimed := range map[string][]string{"is in use": uuids[2:], "this machine has only 1 of the GPUs": {uuids[2], "GPU-of-another-machine"}} {
		got, err := a.Claim(claimed, "q")
		must.Hold(t, err != nil && strings.Contains(err.Error(), reason) && len(a.Owners()) == 2, "q claimed", got, err, "want an error with", reason)
	}
	must.Hold(t, must.Err(a.Acquire(gpu.Request{Count: 3}, "w")) != nil, "a claimed device is assigned to another owner")
	freed := onFreed(a)
	a.Release("p")
	<-freed
	got = must.Do(a.Acquire(gpu.Request{Count: 3}, "w"))(t)
	must.Hold(t, len(got) == 3, "after the release w got", got, "want the healthy devices")
}

// Without a driver, workers run on the CPU. With a driver, they wait until it reports GPUs.
func TestHasGPUs(t *testing.T) {
	for want, inventory := range map[bool]gpu.Inventory{false: gpu.NoGPUs(), true: newFakeInventory()} {
		a := gpu.NewAllocator(inventory)
		defer a.Close()
		must.Equal(t, a.HasGPUs(), want, "HasGPUs")
	}
}
