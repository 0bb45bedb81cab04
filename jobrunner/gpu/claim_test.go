package gpu_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

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
		if got, err := a.Claim(want, "q"); err == nil || !strings.Contains(err.Error(), reason) || len(a.Owners()) != 2 {
			t.Errorf("%v %v, want an error with %q", got, err, reason)
		}
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
