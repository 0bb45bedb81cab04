package gpu_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

func allocator(t *testing.T, yaml string) *gpu.Allocator {
	a := gpu.NewAllocator(machine(t, yaml))
	t.Cleanup(a.Close)
	return a
}

func request(count int, types ...string) gpu.Request { return gpu.Request{Types: types, Count: count} }

// indexes are where on the machine devices are, or the refusal.
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
	slice  = "NVIDIA H200 MIG 1g.18gb"
	mixed  = "gpus: [{type: NVIDIA L4, count: 2}, {type: NVIDIA H200, count: 3}, {type: NVIDIA H200, mig: [1g.18gb, 1g.18gb]}]"
	faulty = "gpus: [{type: NVIDIA L4}, {type: NVIDIA L4, fault: it smokes}, {type: NVIDIA H200}]"
)

// TestPlacement: what a request gets on a machine where others have some
// already, in the order of the table.
func TestPlacement(t *testing.T) {
	type ask struct {
		want gpu.Request
		got  string
	}
	for name, c := range map[string]struct {
		machine string
		asks    []ask
	}{
		"priority order": {mixed, []ask{
			{request(1, h200, l4), "2"}, {request(1, l4, h200), "0"}, {request(2, l4, h200), "3,4"}, {request(1, l40s, l4), "1"},
			{request(1, l4, h200), "all of this machine's 2 × NVIDIA L4 and 3 × NVIDIA H200 are in use"},
		}},
		"any type: the smallest that will do": {mixed, []ask{
			{request(1), "5 1g.18gb"}, {request(2), "0,1"}, {request(3), "2,3,4"}, {request(0), "5 1g.18gb"}, {request(1), "all of this machine's 2 × NVIDIA L4, 3 × NVIDIA H200 and 2 × NVIDIA H200 MIG 1g.18gb are in use"},
		}},
		"all of one type": {mixed, []ask{
			{request(4), "a worker asks for 4 GPUs of one type, and this machine has 2 × NVIDIA L4, 3 × NVIDIA H200 and 2 × NVIDIA H200 MIG 1g.18gb"},
			{request(3, l4), "a worker asks for 3 GPUs of one type, and this machine has 2 × NVIDIA L4"},
		}},
		"MIG instances are a type, one at a time": {mixed, []ask{
			{request(1, slice), "5 1g.18gb"},
			{request(2, slice), "a worker asks for 2 GPUs, and a program can use one MIG instance only; this machine has 2 × NVIDIA H200 MIG 1g.18gb"},
			{request(1, slice), "5 1g.18gb"}, {request(1, slice), "all of this machine's 2 × NVIDIA H200 MIG 1g.18gb are in use"},
		}},
		"a split GPU is no whole one": {"gpus: [{type: NVIDIA H200, mig: [1g.18gb]}, {type: NVIDIA H200, mig: []}]", []ask{
			{request(1, h200), "this machine has no NVIDIA H200; it has 1 × NVIDIA H200 MIG 1g.18gb"},
		}},
		"a type that the machine lacks": {"gpus: [{type: NVIDIA H200, count: 2}]", []ask{
			{request(1, l40s), "this machine has no NVIDIA L40S; it has 2 × NVIDIA H200"},
			{request(1, l40s, l4, "Voodoo"), "this machine has no NVIDIA L40S, NVIDIA L4 or Voodoo; it has 2 × NVIDIA H200"},
		}},
		"a machine without": {"gpus: []", []ask{{request(1), "this machine has no GPU"}, {request(1, l4), "this machine has no GPU"}}},
		"too few are free": {"gpus: [{type: NVIDIA L4, count: 2}]", []ask{
			{request(1), "0"}, {request(2), "a worker asks for 2 of one type, and of this machine's 2 × NVIDIA L4 only 1 is free"},
		}},
		"one": {"gpus: [{type: NVIDIA L4}]", []ask{{request(1), "0"}, {request(1), "this machine's NVIDIA L4 is in use"}}},
		"unhealthy ones are not given": {faulty, []ask{
			{request(2, l4), "too few healthy GPUs: GPU 1 (NVIDIA L4, UUID-1) can't be used: it smokes"},
			{request(1, l4), "0"},
			{request(1, l4), "all of this machine's 2 × NVIDIA L4 are in use; GPU 1 (NVIDIA L4, UUID-1) can't be used: it smokes"},
			{request(1, l4, h200), "2"},
		}},
		"spellings of the catalog": {"gpus: [{type: NVIDIA A30}, {type: NVIDIA A30}, {type: NVIDIA GeForce RTX 3080 Ti}]", []ask{
			{request(1, "NVIDIA  A30"), "0"}, {request(1, "NVIDIA RTX A30"), "1"}, {request(1, "NVIDIA GeForce RTX 3080TI"), "2"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inventory := machine(t, c.machine)
			a := gpu.NewAllocator(inventory)
			defer a.Close()
			for i, ask := range c.asks {
				owner := fmt.Sprint("w", i)
				got := indexes(a.Acquire(ask.want, owner))
				for _, d := range inventory.Devices() {
					got = strings.ReplaceAll(got, d.UUID, fmt.Sprint("UUID-", d.Index))
				}
				if got != ask.got {
					t.Errorf("%d: %+v\n got %s\nwant %s", i, ask.want, got, ask.got)
				}
				if slices.Contains(a.Waiting(), owner) {
					a.Release(owner)
				}
			}
		})
	}
}

// TestCUDA: the allowed versions are exact, the minimum is a floor, and both
// compare as numbers.
func TestCUDA(t *testing.T) {
	for _, c := range []struct {
		driver string
		want   gpu.Request
		got    string
	}{
		{"12.10", gpu.Request{MinimumCUDA: "12.9"}, "0"},
		{"12.9", gpu.Request{MinimumCUDA: "12.9"}, "0"},
		{"12.9", gpu.Request{MinimumCUDA: "12.10"}, "CUDA is too old: this machine's driver 570.86.15 supports CUDA 12.9, and the endpoint asks for at least 12.10: update the driver, or lower the minimum"},
		{"13.0", gpu.Request{MinimumCUDA: "12.8"}, "0"},
		{"13.0", gpu.Request{MinimumCUDA: "13"}, "0"},
		{"12.8", gpu.Request{CUDA: []string{"12.4", "12.8"}}, "0"},
		{"12.8", gpu.Request{CUDA: []string{"12.4", "12.08"}}, "0"},
		{"13.0", gpu.Request{CUDA: []string{"12.4", "12.8"}}, "this machine's driver 570.86.15 reports CUDA 13.0, and the endpoint allows 12.4, 12.8 alone: allow 13.0, or set a minimum instead"},
		{"12.10", gpu.Request{CUDA: []string{"12.1"}}, "this machine's driver 570.86.15 reports CUDA 12.10, and the endpoint allows 12.1 alone: allow 12.10, or set a minimum instead"},
	} {
		a := allocator(t, "driver: {cuda: "+c.driver+"}\ngpus: [{type: NVIDIA L4}]")
		if got := indexes(a.Acquire(c.want, "w")); got != c.got {
			t.Errorf("%s for %+v: %s", c.driver, c.want, got)
		}
	}
	// What the machine lacks is said first.
	a := allocator(t, "gpus: [{type: NVIDIA L4}]")
	if got := indexes(a.Acquire(gpu.Request{Types: []string{l40s}, MinimumCUDA: "99.0"}, "w")); got != "this machine has no NVIDIA L40S; it has 1 × NVIDIA L4" {
		t.Error(got)
	}
}

// TestTheFirstInLineIsNotStarved: small requests that keep coming don't pass
// one that waits for the whole machine.
func TestTheFirstInLineIsNotStarved(t *testing.T) {
	a := allocator(t, "gpus: [{type: NVIDIA H200, count: 4}, {type: NVIDIA L4}]")
	must := func(want, got string) {
		t.Helper()
		if got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	for i := range 3 {
		must(fmt.Sprint(i), indexes(a.Acquire(request(1, h200), fmt.Sprint("small", i))))
	}
	must("a worker asks for 4 of one type, and of this machine's 4 × NVIDIA H200 only 1 is free", indexes(a.Acquire(request(4, h200), "large")))
	must("what is free of this machine's 4 × NVIDIA H200 is kept for a worker that has waited longer", indexes(a.Acquire(request(1, h200), "late")))
	must("4", indexes(a.Acquire(request(1, h200, l4), "flexible"))) // the large one has no use for that
	must("large late", strings.Join(a.Waiting(), " "))
	for i := range 3 {
		a.Release(fmt.Sprint("small", i))
		must("what is free of this machine's 4 × NVIDIA H200 is kept for a worker that has waited longer", indexes(a.Acquire(request(1, h200), "late")))
	}
	must("0,1,2,3", indexes(a.Acquire(request(4, h200), "large")))
	must("all of this machine's 4 × NVIDIA H200 are in use", indexes(a.Acquire(request(1, h200), "late")))
	a.Release("large")
	must("0", indexes(a.Acquire(request(1, h200), "late")))
	must("", strings.Join(a.Waiting(), " "))
}

// TestLeavingTheLine: who leaves it keeps nothing from the others, and they
// hear of it.
func TestLeavingTheLine(t *testing.T) {
	a := allocator(t, "gpus: [{type: NVIDIA L4, count: 2}]")
	a.Acquire(request(1), "first")
	a.Acquire(request(2), "large")
	if _, err := a.Acquire(request(1), "small"); err == nil {
		t.Fatal("what is kept was given")
	}
	drain(a)
	a.Release("large")
	select {
	case <-a.Freed():
	default:
		t.Error("nobody heard that the line moved")
	}
	if got := indexes(a.Acquire(request(1), "small")); got != "1" {
		t.Error(got)
	}

	// A change of the request keeps the place, one that can't be met loses it.
	a.Acquire(request(2), "changing")
	a.Acquire(request(1), "behind")
	a.Acquire(request(1), "changing")
	if got := strings.Join(a.Waiting(), " "); got != "changing behind" {
		t.Errorf("in line: %s", got)
	}
	a.Acquire(request(3), "changing")
	if got := strings.Join(a.Waiting(), " "); got != "behind" {
		t.Errorf("in line: %s", got)
	}
	if _, err := a.Acquire(request(1), "small"); err == nil || err.Error() != "small has 1 GPUs already, and must release them before it asks for others" {
		t.Error(err)
	}
	a.Release("nobody")
}

func drain(a *gpu.Allocator) {
	select {
	case <-a.Freed():
	default:
	}
}

// TestFreedTellsOfHealth: a device that returns is as good as one released.
func TestFreedTellsOfHealth(t *testing.T) {
	inventory := newFake(gpu.Device{UUID: "GPU-0", TypeID: l4, Fault: "lost"})
	a := gpu.NewAllocator(inventory)
	defer a.Close()
	if _, err := a.Acquire(request(1), "w"); err == nil {
		t.Fatal("a lost device was given")
	}
	inventory.set(0, "")
	<-a.Freed()
	if got := indexes(a.Acquire(request(1), "w")); got != "0" {
		t.Error(got)
	}
}

// TestAPartIsInUse: where a GPU is split, or made whole again, while a worker
// has it, the other view of it is in use as well.
func TestAPartIsInUse(t *testing.T) {
	asWhole := gpu.Device{UUID: "GPU-0", TypeID: h200, Memory: 2}
	asPart := gpu.Device{UUID: "MIG-0", TypeID: slice, MIG: "1g.18gb", Memory: 1}
	for _, c := range []struct{ has, wants gpu.Device }{{asWhole, asPart}, {asPart, asWhole}} {
		a := gpu.NewAllocator(newFake(asWhole, asPart))
		defer a.Close()
		if _, err := a.Acquire(request(1, c.has.TypeID), "w"); err != nil {
			t.Fatal(err)
		}
		if got := indexes(a.Acquire(request(1, c.wants.TypeID), "v")); got != "this machine's "+c.wants.TypeID+" is in use" {
			t.Error(got)
		}
	}
}

func TestStock(t *testing.T) {
	a := allocator(t, "gpus: [{type: NVIDIA L4, count: 2}, {type: Tesla T4, fault: lost}, {type: NVIDIA H200, mig: [1g.18gb, 1g.18gb]}]")
	a.Acquire(request(1, l4), "w")
	a.Acquire(request(1, slice), "v")
	want := map[string]catalog.Stock{
		l4: {Count: 1, Memory: 24}, "Tesla T4": {Count: 0, Memory: 16}, slice: {Count: 1, Memory: 18},
	}
	got := a.Stock()
	for id, s := range got {
		if !slices.Equal(s.CUDAVersions, []string{"12.8"}) {
			t.Errorf("%s: %q", id, s.CUDAVersions)
		}
		s.CUDAVersions = nil
		if w := want[id]; s.Count != w.Count || s.Memory != w.Memory {
			t.Errorf("%s: %+v", id, s)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", slices.Sorted(maps.Keys(got)))
	}
}

// fake is an inventory whose devices fail and return at once.
type fake struct {
	mu      sync.Mutex
	devices []gpu.Device
	changed chan struct{}
	busy    map[string]bool
}

func newFake(devices ...gpu.Device) *fake {
	return &fake{devices: devices, changed: make(chan struct{}, 1), busy: map[string]bool{}}
}

func (f *fake) Driver() gpu.Driver                { return gpu.Driver{Version: "1", CUDA: "12.8"} }
func (f *fake) Changed() <-chan struct{}          { return f.changed }
func (f *fake) Sample(string) (gpu.Sample, error) { return gpu.Sample{}, nil }
func (f *fake) Close()                            {}
func (f *fake) Hold(uuid string, held bool)       { f.busy[uuid] = held }
func (f *fake) Devices() []gpu.Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.devices)
}

func (f *fake) set(i int, fault string) {
	f.mu.Lock()
	f.devices[i].Fault = fault
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// TestNeverTwoOwners: whatever is asked, released and fails, no device has two
// owners, nobody gets a part, nothing leaks, and nobody in line could have what
// it asks for once those before it are served.
func TestNeverTwoOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var devices []gpu.Device
		for i := range rapid.IntRange(0, 8).Draw(t, "gpus") {
			switch kind := rapid.SampledFrom([]string{l4, h200, "split"}).Draw(t, "kind"); kind {
			case "split":
				for m := range rapid.IntRange(0, 3).Draw(t, "instances") {
					devices = append(devices, gpu.Device{UUID: fmt.Sprint("MIG-", i, m), Index: i, TypeID: slice, MIG: "1g.18gb", Memory: 18})
				}
			default:
				devices = append(devices, gpu.Device{UUID: fmt.Sprint("GPU-", i), Index: i, TypeID: kind, Memory: int64(len(kind))})
			}
		}
		inventory := newFake(devices...)
		a := gpu.NewAllocator(inventory)
		defer a.Close()
		owned := map[string][]gpu.Device{}
		owner := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		types := rapid.SliceOfN(rapid.SampledFrom([]string{l4, h200, slice, l40s}), 0, 3)
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				who, want := owner.Draw(t, "owner"), request(rapid.IntRange(0, 4).Draw(t, "count"), types.Draw(t, "types")...)
				got, err := a.Acquire(want, who)
				switch {
				case err != nil && len(got) > 0:
					t.Fatal("devices and an error")
				case err != nil:
					return
				case len(owned[who]) > 0:
					t.Fatalf("%s got devices twice", who)
				case len(got) != max(1, want.Count):
					t.Fatalf("a part: %d of %d", len(got), want.Count)
				}
				for _, d := range got {
					if d.Fault != "" || d.TypeID != got[0].TypeID || len(want.Types) > 0 && !slices.Contains(want.Types, d.TypeID) {
						t.Fatalf("%+v for %+v", d, want)
					}
				}
				owned[who] = got
			},
			"release": func(t *rapid.T) {
				who := owner.Draw(t, "owner")
				a.Release(who)
				delete(owned, who)
				if slices.Contains(a.Waiting(), who) {
					t.Fatalf("%s still stands in line", who)
				}
			},
			"fail or return": func(t *rapid.T) {
				if len(devices) > 0 {
					inventory.set(rapid.IntRange(0, len(devices)-1).Draw(t, "device"), rapid.SampledFrom([]string{"", "lost"}).Draw(t, "fault"))
				}
			},
			"": func(t *rapid.T) {
				held := a.Held()
				count := 0
				for who, devices := range owned {
					for _, d := range devices {
						if count++; held[d.UUID] != who || !inventory.busy[d.UUID] {
							t.Fatalf("%s is %s's, not %s's", d.UUID, held[d.UUID], who)
						}
					}
				}
				if count != len(held) {
					t.Fatalf("%d devices are held, and %d were given", len(held), count)
				}
			},
		})
		// All gone: everything is free again.
		for _, who := range []string{"a", "b", "c", "d", "e"} {
			a.Release(who)
		}
		if len(a.Held()) > 0 || len(a.Waiting()) > 0 {
			t.Fatalf("left: %v, %v", a.Held(), a.Waiting())
		}
		free := int64(0)
		for _, s := range a.Stock() {
			free += s.Count
		}
		for _, d := range inventory.Devices() {
			if d.Fault == "" {
				free--
			}
		}
		if free != 0 {
			t.Fatalf("%d healthy devices are not in stock", -free)
		}
	})
}

// TestWhoeverWaitsIsServed: a large request is met at the latest when each of
// the small ones that were there before it has ended once, in whatever order
// they end and ask again.
func TestWhoeverWaitsIsServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var devices []gpu.Device
		var small []string
		for i := range 6 {
			devices = append(devices, gpu.Device{UUID: fmt.Sprint("GPU-", i), Index: i, TypeID: []string{l4, h200}[i%2], Memory: int64(i % 2)})
			small = append(small, fmt.Sprint("small", i))
		}
		a := gpu.NewAllocator(newFake(devices...))
		defer a.Close()
		for _, who := range small {
			if _, err := a.Acquire(request(1), who); err != nil {
				t.Fatal(err)
			}
		}
		large := request(rapid.IntRange(1, 3).Draw(t, "count"), rapid.SampledFrom([][]string{{l4}, {h200}, {h200, l4}, nil}).Draw(t, "types")...)
		if _, err := a.Acquire(large, "large"); err == nil {
			t.Fatal("nothing was free")
		}
		for _, ends := range rapid.Permutation(small).Draw(t, "ends") {
			a.Release(ends)
			for _, who := range rapid.Permutation([]string{ends, "new", "large"}).Draw(t, "asks") {
				if who != "large" {
					a.Acquire(request(1), who)
				} else if _, err := a.Acquire(large, who); err == nil {
					return
				}
			}
		}
		t.Fatal("it still waits")
	})
}
