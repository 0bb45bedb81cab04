//go:build linux && cgo

package nvidia

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

// Open reads the machine's GPUs through NVML, the library of the driver. The error tells people in
// one line why it failed. Usually no driver is installed.
//
// The GPUs are polled every few seconds, and at once when the driver reports an error, so that faults,
// recoveries and MIG changes need no restart.
func Open(log *slog.Logger) (gpu.Inventory, error) { return open(nvml.New(), log) }

func open(lib nvml.Interface, log *slog.Logger) (*reader, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, unavailable(ret)
	}
	r := &reader{
		lib: lib, log: log, functions: availableFunctions(lib),
		changed: make(chan struct{}, 1),
	}
	r.life, r.stop = context.WithCancel(context.Background())
	r.readDriver()
	r.createEventSet()
	r.refresh()
	if len(r.gpus) == 0 {
		r.shutdown()
		return nil, fmt.Errorf("the NVIDIA driver %s lists no GPU (check nvidia-smi)", r.driver.Version)
	}
	r.watcher.Go(r.watch)
	return r, nil
}

// unavailable explains why NVML can't be used.
func unavailable(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return errors.New("there is no NVIDIA driver (libnvidia-ml.so.1 was not found)")
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return errors.New("the kernel module of the NVIDIA driver is not loaded (modprobe nvidia)")
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return errors.New("library and kernel module of the NVIDIA driver have different versions; a reboot loads the new one")
	case nvml.ERROR_NO_PERMISSION:
		return errors.New("this user has no permission to use the NVIDIA driver (check the permissions of /dev/nvidia*)")
	}
	return fmt.Errorf("the NVIDIA driver does not start: %w", ret)
}

// Functions of NVML that older drivers lack. Calling a missing function ends the process.
var (
	optionalFunctions = []string{"nvmlSystemGetCudaDriverVersion", "nvmlDeviceGetFieldValues", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetMemoryInfo_v2"}
	migFunctions      = []string{"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"}
)

func availableFunctions(lib nvml.Interface) map[string]bool {
	functions := map[string]bool{}
	for _, name := range slices.Concat(optionalFunctions, migFunctions) {
		functions[name] = lib.Extensions().LookupSymbol(name) == nil
	}
	return functions
}

// reader is the inventory of this machine. Only the goroutine of watch changes gpus and events.
type reader struct {
	lib       nvml.Interface
	log       *slog.Logger
	functions map[string]bool // whether the library has an optional function, by name
	changed   chan struct{}
	life      context.Context // ends with Close
	stop      context.CancelFunc
	watcher   sync.WaitGroup

	gpus   []*physicalGPU // ordered by index
	events nvml.EventSet

	nvmlMu sync.RWMutex // guards closed and the shutdown of NVML. It is locked before mu, and during calls that may hang
	closed bool

	mu      sync.RWMutex // guards the fields below
	driver  gpu.Driver
	devices []gpu.Device
	handles map[string]handle // by UUID
}

// handle is NVML's access to a device.
type handle struct {
	device   nvml.Device
	wholeGPU nvml.Device // the GPU of a MIG instance, otherwise device
}

// These are real time, not time of the deployment's clock.
const (
	pollInterval = 5 * time.Second
	maxEventWait = 500 * time.Millisecond // also the longest wait of Close
)

func (r *reader) readDriver() {
	d := gpu.Driver{}
	d.Version, _ = r.lib.SystemGetDriverVersion() // "" if the driver doesn't report it
	if r.functions["nvmlSystemGetCudaDriverVersion"] {
		if v, ret := r.lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			d.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
	}
	r.mu.Lock()
	r.driver = d
	r.mu.Unlock()
}

func (r *reader) watch() {
	lastRefresh := time.Now()
	for r.life.Err() == nil {
		if r.waitEvent() || time.Since(lastRefresh) >= pollInterval {
			r.refresh()
			lastRefresh = time.Now()
		}
	}
}

// publish replaces the inventory's devices with the devices of the last refresh.
func (r *reader) publish() {
	var devices []gpu.Device
	handles := map[string]handle{}
	for _, g := range r.gpus {
		for _, d := range g.devices {
			d.Index, d.Fault = g.index, cmp.Or(g.lostReason, g.checkedFault, g.lastReport.fault, d.lastReport.fault)
			if isVisible(d.Device) {
				devices = append(devices, d.Device)
				handles[d.UUID] = d.handle
			}
		}
	}
	r.mu.Lock()
	before := r.devices
	r.devices, r.handles = devices, handles
	r.mu.Unlock()
	if slices.Equal(before, devices) {
		return
	}
	r.logChanges(before, devices)
	notify.Signal(r.changed)
}

// isVisible reports whether CUDA_VISIBLE_DEVICES of this process allows a device, by its UUID or the index of its GPU.
func isVisible(d gpu.Device) bool {
	list, isSet := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	return !isSet || slices.ContainsFunc(strings.Split(list, ","), func(name string) bool {
		name = strings.TrimSpace(name)
		return name == strconv.Itoa(d.Index) || name != "" && strings.HasPrefix(d.UUID, name)
	})
}

func (r *reader) logChanges(before, after []gpu.Device) {
	previousFaults := map[string]string{}
	for _, d := range before {
		previousFaults[d.UUID] = d.Fault
	}
	for _, d := range after {
		switch previous := previousFaults[d.UUID]; {
		case d.Fault != "" && d.Fault != previous:
			r.log.Warn("a GPU can't be used", "gpu", d.UUID, "type", d.TypeID, "index", d.Index, "reason", d.Fault)
		case d.Fault == "" && previous != "":
			r.log.Info("a GPU can be used again", "gpu", d.UUID, "type", d.TypeID, "index", d.Index)
		}
	}
}

func (r *reader) Driver() gpu.Driver {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.driver
}

func (r *reader) Devices() []gpu.Device {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.devices)
}

func (r *reader) Changed() <-chan struct{} { return r.changed }

func (r *reader) Close() {
	r.stop()
	r.watcher.Wait()
	r.nvmlMu.Lock()
	defer r.nvmlMu.Unlock()
	if !r.closed {
		r.closed = true
		r.shutdown()
	}
}
