package gpu_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// A large request is satisfied at the latest when all earlier small requests have released their devices.
func TestQueuedRequestIsServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var devices []gpu.Device
		var small []string
		for i := range 6 {
			devices = append(devices, gpu.Device{UUID: fmt.Sprint("GPU-", i), Index: i, TypeID: []string{l4, h200}[i%2], Memory: int64(i % 2)})
			small = append(small, fmt.Sprint("small", i))
		}
		a := gpu.NewAllocator(newFakeInventory(devices...))
		defer a.Close()
		for _, owner := range small {
			must.Do(a.Acquire(request(1), owner))(t)
		}
		large := request(rapid.IntRange(1, 3).Draw(t, "count"), rapid.SampledFrom([][]string{{l4}, {h200}, {h200, l4}, nil}).Draw(t, "types")...)
		must.Require(t, must.Err(a.Acquire(large, "large")) != nil, "a request succeeds although no device is free")
		for _, released := range rapid.Permutation(small).Draw(t, "ends") {
			a.Release(released)
			for _, owner := range rapid.Permutation([]string{released, "new", "large"}).Draw(t, "asks") {
				if owner != "large" {
					a.Acquire(request(1), owner)
				} else if _, err := a.Acquire(large, owner); err == nil {
					return
				}
			}
		}
		t.Fatal("the large request still waits")
	})
}

// All members of a cluster get their devices, or none does, whatever devices other owners hold.
func TestMembersGetAllOrNone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(r, "size")
		a := newAllocator(t, fmt.Sprintf("gpus: [{type: NVIDIA L4, count: %d}]", size))
		singles := 0
		for range rapid.IntRange(0, size).Draw(r, "singles") {
			singles++
			must.Do(a.Acquire(request(1), fmt.Sprint("single", singles)))(r)
		}
		count, members := rapid.IntRange(1, 3).Draw(r, "count"), rapid.IntRange(1, 4).Draw(r, "members")
		names := []string{}
		for i := range members {
			names = append(names, fmt.Sprint("member", i))
		}
		assigned, err := a.AcquireForMembers(request(count, l4), "cluster", names)
		fits := count*members <= size-singles
		must.Require(r, (err == nil) == fits, members, "members request", count, "devices each, and", size-singles, "are free:", err)
		owners, held := a.Owners(), map[string]int{}
		for _, owner := range owners {
			held[owner]++
		}
		for i, name := range names {
			want := 0
			if fits {
				want = count
				must.Require(r, len(assigned[i]) == count && owners[assigned[i][0].UUID] == name, name, "has", assigned[i], owners)
			}
			must.Require(r, held[name] == want, name, "holds", held[name], "devices, want", want)
		}
		waits := len(a.Queue()) == 1 && a.Queue()[0] == "cluster"
		must.Require(r, waits == (!fits && count*members <= size), "the queue is", a.Queue(), err)
	})
}

// Free devices are reserved for a waiting cluster as a whole. Each member can get a MIG instance.
func TestMembersWaitAsOne(t *testing.T) {
	a := newAllocator(t, "gpus: [{type: NVIDIA L4, count: 4}, {type: NVIDIA H200, mig: [1g.18gb, 1g.18gb]}]")
	must.Do(a.Acquire(request(1, l4), "single"))(t)
	must.Require(t, must.Err(a.AcquireForMembers(request(2, l4), "cluster", []string{"a", "b"})) != nil, "a cluster gets 4 devices although 3 are free")
	must.Hold(t, must.Err(a.Acquire(request(1, l4), "late")) != nil, "a device that a cluster waits for is assigned")
	a.Release("single")
	must.Hold(t, must.Err(a.Acquire(request(1, l4), "late")) != nil, "a device that a cluster waits for is assigned")
	must.Do(a.AcquireForMembers(request(2, l4), "cluster", []string{"a", "b"}))(t)
	must.Hold(t, must.Err(a.AcquireForMembers(request(2, l4), "cluster", []string{"b", "c"})) != nil, "a member that has devices gets more")
	a.Release("b")
	must.Equal(t, indexes(a.Acquire(request(2, l4), "late")), "2,3")
	assigned := must.Do(a.AcquireForMembers(gpu.Request{Types: []string{mig}}, "slices", []string{"x", "y"}))(t)
	must.Hold(t, len(assigned) == 2, "the members got", assigned, "want a MIG instance each")
	a.Release("late")
	must.Do(a.Acquire(request(1, l4), "late"))(t)
	for count, want := range map[int]string{
		3: "a cluster asks for 6 GPUs of one type, and this machine has 4 × NVIDIA L4",
		2: "a cluster asks for 4 GPUs of one type, and only 1 is free (this machine has 4 × NVIDIA L4)",
	} {
		must.ErrorContains(t, must.Err(a.AcquireForMembers(request(count, l4), "other", []string{"m", "n"})), want)
	}
}
