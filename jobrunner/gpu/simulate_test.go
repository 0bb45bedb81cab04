package gpu_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

func newInventory(t *testing.T, yaml string) gpu.Inventory {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gpus.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(yaml), 0o600))
	inventory := must.Do(gpu.Simulate(file, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(inventory.Close)
	return inventory
}

func TestPresets(t *testing.T) {
	for name, want := range map[string]string{
		"h200x8": "8 × NVIDIA H200 (driver 570.86.15, CUDA 12.8)",
		"l4x2":   "2 × NVIDIA L4 (driver 550.54.15, CUDA 12.4)",
		"mixed":  "2 × NVIDIA H100 80GB HBM3, 2 × NVIDIA L40S, 1 × NVIDIA GeForce RTX 4090 and 1 × NVIDIA TITAN RTX (driver 570.86.15, CUDA 12.8)",
		"mig":    "1 × NVIDIA H200, 1 × NVIDIA H200 MIG 3g.71gb and 2 × NVIDIA H200 MIG 1g.18gb (driver 570.86.15, CUDA 12.8)",
		"faulty": "4 × NVIDIA A100-SXM4-80GB (driver 570.86.15, CUDA 12.8); GPU 2 (",
	} {
		inventory := must.Do(gpu.Simulate(name, slog.New(slog.DiscardHandler)))(t)
		got := gpu.Summary(inventory)
		must.Hold(t, strings.HasPrefix(got, want), "the summary of", name, "is", got, "want", want)
		seen := map[string]bool{}
		for _, d := range inventory.Devices() {
			must.Hold(t, !seen[d.UUID] && d.Memory >= 16<<30 && strings.HasPrefix(d.UUID, map[bool]string{true: "GPU-", false: "MIG-"}[d.MIG == ""]), name, "has a device with too little memory, or the UUID of another device or kind:", d)
			seen[d.UUID] = true
		}
		inventory.Close()
		inventory.Close() // a second Close is a no-op
	}
	must.Equal(t, gpu.Presets(), []string{"faulty", "h200x8", "l4x2", "mig", "mixed"}, "presets")
}

func TestSimulatedMachine(t *testing.T) {
	inventory := newInventory(t, `{
	"driver": {"version": "580.65.06", "cuda": "13.0"},
	"gpus": [
		{"type": "nvidia  l4", "count": 2},
		{"type": "H200", "mig": ["1g.18gb", "1c.2g.35gb", "1g.18gb+me"]},
		{"type": "Home Made", "memory": 3, "fault": "burnt"}
	]
}`)
	must.Equal(t, inventory.Driver(), gpu.Driver{Version: "580.65.06", CUDA: "13.0"}, "driver")
	want := []gpu.Device{
		{Index: 0, TypeID: "NVIDIA L4", Memory: 24 << 30},
		{Index: 1, TypeID: "NVIDIA L4", Memory: 24 << 30},
		{Index: 2, TypeID: "NVIDIA H200 MIG 1g.18gb", MIG: "1g.18gb", Memory: 18 << 30},
		{Index: 2, TypeID: "NVIDIA H200 MIG 1c.2g.35gb", MIG: "1c.2g.35gb", Memory: 35 << 30},
		{Index: 2, TypeID: "NVIDIA H200 MIG 1g.18gb+me", MIG: "1g.18gb+me", Memory: 18 << 30},
		{Index: 3, TypeID: "Home Made", Memory: 3 << 30, Fault: "burnt"},
	}
	got := inventory.Devices()
	for i := range got {
		got[i].UUID = ""
	}
	must.Equal(t, got, want, "devices")
}

// The error names the file, the line and the expected value.
func TestInvalidSimulatedMachine(t *testing.T) {
	for yaml, want := range map[string]string{
		"gpus:\n  - type: NVIDIA L4\n    cuont: 2":                                 `:3: unknown field "cuont"`,
		"gpus:\n  - type: NVIDIA L4\n    count: 0":                                 ":3: invalid count: expected 1 to 64, got 0",
		"gpus:\n  - type: NVIDIA L4\n    count: many":                              `:3: expected a whole number, got "many"`,
		"gpus:\n  - count: 1":                                                      ":2: missing type: expected for example type: NVIDIA H200",
		"gpus:\n  - type: NVIDIA L4\n  - type: Voodoo 2":                           `:3: missing memory: the catalog has no GPU type "Voodoo 2", so set its memory in GB`,
		"gpus:\n  - type: Voodoo 2\n    memory: -1":                                ":3: invalid memory: expected 1 to 1048576 GB, got -1",
		"gpus:\n  - type: NVIDIA H200\n    mig: [1g.18gb,\n    big]":               `:4: invalid MIG profile "big"`,
		"gpus:\n  - type: NVIDIA H200\n    mig: [0g.1gb]":                          `:3: invalid MIG profile "0g.1gb"`,
		"gpus:\n  - type: NVIDIA H200\n    mig: [4g.71gb, 4g.71gb]":                ":3: too many MIG instances: expected at most 7 slices, got 8",
		"driver:\n  cuda: [12]":                                                    ":2: expected a single value",
		"driver:\n  cuda: new":                                                     `:2: invalid CUDA version "new"`,
		"gpus:\n  - {type: NVIDIA L4, count: 60}\n  - {type: NVIDIA L4, count: 5}": ":3: too many GPUs: expected at most 64",
		"gpus: [null]":        ":1: invalid item of a list: expected a value, got nothing",
		"gpus: [":             ":1: ",
		"gpus:\n\t- x":        ":2: ",
		"- type: NVIDIA L4\n": ":1: ",
		"gpus: &a [*a]":       ":1: ",
	} {
		file := filepath.Join(t.TempDir(), "gpus.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(yaml), 0o600))
		must.ErrorContains(t, must.Err(gpu.Simulate(file, nil)), file+want)
	}
	must.ErrorContains(t, must.Err(gpu.Simulate("nowhere/h200x8", nil)), "simulated GPUs: file nowhere/h200x8 not found, and it is not a preset: expected a file or one of faulty, h200x8, l4x2, mig, mixed")
}

// A device fails and recovers with the same UUID, and an invalid file changes nothing.
func TestSimulatedFileChanges(t *testing.T) { synctest.Test(t, testFileChanges) }

func testFileChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gpus.yaml")
	write := func(yaml string) { // atomically, as an editor does
		t.Helper()
		must.Succeed(t, os.WriteFile(file+".new", []byte(yaml), 0o600))
		must.Succeed(t, os.Rename(file+".new", file))
	}
	write("gpus: [{type: NVIDIA L4}]")
	var log livelog.Log
	inventory := must.Do(gpu.Simulate(file, slog.New(slog.NewTextHandler(&log, nil))))(t)
	defer inventory.Close()
	before := inventory.Devices()[0]

	write("gpus: [{type: NVIDIA L4, fault: it smokes}]")
	<-inventory.Changed()
	got := inventory.Devices()[0]
	must.Hold(t, got.Fault == "it smokes" && got.UUID == before.UUID, "after the fault", got)
	write("gpus: [")
	log.Await(t, "reading the file of the simulated GPUs failed", 1)
	devices := inventory.Devices()
	must.Hold(t, len(devices) == 1 && devices[0].Fault == "it smokes", "while the file is invalid:", devices)
	write("gpus: [{type: NVIDIA L4}, {type: NVIDIA L4}]")
	<-inventory.Changed()
	devices = inventory.Devices()
	must.Hold(t, len(devices) == 2 && devices[0] == before, "after the recovery:", devices)
}

// A pipe has its content only for the first reader, so it isn't read again.
func TestPipeIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, err := os.Pipe()
		must.Succeed(t, err)
		defer r.Close()
		must.Do(w.WriteString("gpus: [{type: NVIDIA L4}]"))(t)
		must.Succeed(t, w.Close())
		inventory, err := gpu.Simulate(fmt.Sprintf("/dev/fd/%d", r.Fd()), slog.New(slog.DiscardHandler))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("this system has no /dev/fd")
		}
		must.Succeed(t, err)
		defer inventory.Close()
		time.Sleep(time.Minute)
		must.Equal(t, len(inventory.Devices()), 1, "devices after a minute")
	})
}

// A device shows load while it is in use.
func TestSamplesFollowUse(t *testing.T) {
	inventory := newInventory(t, "gpus: [{type: NVIDIA L4}, {type: NVIDIA H200, mig: [1g.18gb]}, {type: NVIDIA L4, fault: lost}]")
	devices := inventory.Devices()
	sample := func(i int) gpu.Sample {
		t.Helper()
		return must.Do(inventory.Sample(devices[i].UUID))(t)
	}
	a := gpu.NewAllocator(inventory)
	defer a.Close()
	idle := sample(0)
	must.Do(a.Acquire(gpu.Request{Types: []string{"NVIDIA L4"}}, "w"))(t)
	busy := sample(0)
	must.Hold(t, idle.Utilization == 0 && busy.Utilization > 50 && busy.Power > idle.Power && busy.MemoryUsed > idle.MemoryUsed && busy.MemoryUsed <= 24<<30, "idle", idle, "busy", busy)
	a.Release("w")
	must.Equal(t, sample(0), idle, "the sample of a released device")
	got := sample(1)
	must.Hold(t, got.Utilization == -1 && got.Power == -1 && got.Temperature >= 0, "a MIG instance", got)
	must.Equal(t, sample(2), gpu.UnknownSample, "the sample of a lost GPU")
	must.Equal(t, fmt.Sprint(must.Err(inventory.Sample("GPU-none"))), "this machine has no GPU GPU-none")
}
