package gpu_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// All members of a cluster get their devices, or none does, whatever devices other owners hold.
func TestMembersGetAllOrNone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(r, "size")
		a := allocator(t, fmt.Sprintf("gpus: [{type: NVIDIA L4, count: %d}]", size))
		singles := 0
		for range rapid.IntRange(0, size).Draw(r, "singles") {
			singles++
			if _, err := a.Acquire(request(1), fmt.Sprint("single", singles)); err != nil {
				r.Fatal(err)
			}
		}
		count, members := rapid.IntRange(1, 3).Draw(r, "count"), rapid.IntRange(1, 4).Draw(r, "members")
		names := []string{}
		for i := range members {
			names = append(names, fmt.Sprint("member", i))
		}
		assigned, err := a.AcquireForMembers(request(count, l4), "cluster", names)
		fits := count*members <= size-singles
		if (err == nil) != fits {
			r.Fatalf("%d × %d of %d free: %v", members, count, size-singles, err)
		}
		owners, held := a.Owners(), map[string]int{}
		for _, owner := range owners {
			held[owner]++
		}
		for i, name := range names {
			want := 0
			if fits {
				want = count
				if len(assigned[i]) != count || owners[assigned[i][0].UUID] != name {
					r.Fatalf("%s has %v: %v", name, assigned[i], owners)
				}
			}
			if held[name] != want {
				r.Fatalf("%s holds %d devices, want %d", name, held[name], want)
			}
		}
		if waits := len(a.Queue()) == 1 && a.Queue()[0] == "cluster"; waits != (!fits && count*members <= size) {
			r.Fatalf("the queue is %v: %v", a.Queue(), err)
		}
	})
}

// Exactly the devices that a waiting cluster needs are reserved for it. Each member can get one MIG
// instance.
func TestMembersWaitAsOne(t *testing.T) {
	a := allocator(t, "gpus: [{type: NVIDIA L4, count: 4}, {type: NVIDIA H200, mig: [1g.18gb, 1g.18gb]}]")
	must.Do(a.Acquire(request(1, l4), "single"))(t)
	_, err := a.AcquireForMembers(request(2, l4), "cluster", []string{"a", "b"})
	must.Require(t, err != nil, "a cluster gets 4 devices of a machine with 3")
	must.Hold(t, must.Err(a.Acquire(request(1, l4), "late")) != nil, "a device that a cluster waits for is assigned")
	a.Release("single")
	must.Hold(t, must.Err(a.Acquire(request(1, l4), "late")) != nil, "a device that a cluster waits for is assigned")
	must.Do(a.AcquireForMembers(request(2, l4), "cluster", []string{"a", "b"}))(t)
	must.Hold(t, must.Err(a.AcquireForMembers(request(2, l4), "cluster", []string{"b", "c"})) != nil, "a member that has devices gets more")
	a.Release("b")
	must.Equal(t, indexes(a.Acquire(request(2, l4), "late")), "2,3")
	assigned := must.Do(a.AcquireForMembers(gpu.Request{Types: []string{slice}}, "slices", []string{"x", "y"}))(t)
	must.Hold(t, len(assigned) == 2, assigned)
	for count, want := range map[int]string{
		3: "a cluster asks for 6 GPUs of one type, and this machine has 4 × NVIDIA L4",
		2: "a cluster asks for 4 GPUs of one type, and only 1 is free (this machine has 4 × NVIDIA L4)",
	} {
		a.Release("late")
		if count == 2 {
			_ = indexes(a.Acquire(request(1, l4), "late"))
		}
		_, err := a.AcquireForMembers(request(count, l4), "other", []string{"m", "n"})
		must.Hold(t, err != nil && err.Error() == want, err, "want", want)
	}
}

// Claim assigns all devices that an owner had before, or none.
func TestClaim(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine.yaml")
	must.Succeed(t, os.WriteFile(file, []byte("gpus:\n  - {type: NVIDIA L4, count: 3}\n  - {type: NVIDIA L4, fault: it is lost}\n"), 0o600))
	inventory := must.Do(gpu.Simulate(file, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(inventory.Close)
	a := gpu.NewAllocator(inventory)
	t.Cleanup(a.Close)
	var uuids []string
	for _, d := range inventory.Devices() {
		uuids = append(uuids, d.UUID)
	}
	if got, err := a.Claim(uuids[:2], "p"); err != nil || len(got) != 2 || a.Owners()[uuids[0]] != "p" || a.Owners()[uuids[1]] != "p" {
		t.Errorf("%v %v %v", got, err, a.Owners())
	}
	for reason, want := range map[string][]string{"is in use": uuids[1:3], "it is lost": uuids[2:4], "this machine has only 1 of the GPUs": {uuids[2], "GPU-of-another-machine"}} {
		got, err := a.Claim(want, "q")
		must.Hold(t, err != nil && strings.Contains(err.Error(), reason) && len(a.Owners()) == 2, got, err, "want an error with", reason)
	}
	must.Hold(t, must.Err(a.Acquire(gpu.Request{Count: 2}, "w")) != nil, "a claimed device is assigned to another owner")
	freed := a.Watch()
	a.Release("p")
	select {
	case <-freed:
	case <-time.After(time.Minute):
		t.Error("a watcher gets no signal of free devices")
	}
	got := must.Do(a.Acquire(gpu.Request{Count: 2}, "w"))(t)
	must.Hold(t, len(got) == 2, got)
}
