//go:build linux && cgo

package gpu

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Open reads the machine's GPUs through NVML, the library of the driver. The
// error says, for people and in a line, why there are none: mostly that there
// is no driver.
//
// The GPUs are looked at again every few seconds, and at once when the driver
// reports an error of one, so that devices fail, return, and are split into MIG
// instances without a restart.
func Open(log *slog.Logger) (Inventory, error) { return open(nvml.New(), log) }

func open(lib nvml.Interface, log *slog.Logger) (*reader, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, unavailable(ret)
	}
	r := &reader{
		lib: lib, log: log, can: functions(lib),
		changed: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	r.readDriver()
	r.listen()
	r.refresh()
	if len(r.gpus) == 0 {
		r.end()
		return nil, fmt.Errorf("the NVIDIA driver %s runs, and shows none (look at nvidia-smi)", r.driver.Version)
	}
	r.watching.Go(r.watch)
	return r, nil
}

// unavailable says why NVML can't be used.
func unavailable(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return errors.New("there is no NVIDIA driver (libnvidia-ml.so.1 was not found)")
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return errors.New("the NVIDIA driver is installed, and its kernel module is not loaded (modprobe nvidia)")
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return errors.New("library and kernel module of the NVIDIA driver have different versions; a reboot loads the new one")
	case nvml.ERROR_NO_PERMISSION:
		return errors.New("this user may not use the NVIDIA driver (look at the permissions of /dev/nvidia*)")
	}
	return fmt.Errorf("the NVIDIA driver does not start: %w", ret)
}

// newer are the functions of NVML that a driver may lack. To call one that is
// missing ends the process.
var newer = []string{
	"nvmlSystemGetCudaDriverVersion", "nvmlDeviceGetFieldValues", "nvmlDeviceGetRemappedRows",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
}

func functions(lib nvml.Interface) map[string]bool {
	can := map[string]bool{}
	for _, name := range newer {
		can[name] = lib.Extensions().LookupSymbol(name) == nil
	}
	return can
}

// reader is the inventory of this machine. One goroutine watches; it alone
// changes gpus and events.
type reader struct {
	lib      nvml.Interface
	log      *slog.Logger
	can      map[string]bool // newer functions
	changed  chan struct{}
	stop     chan struct{}
	stopping sync.Once
	watching sync.WaitGroup

	gpus   []*physical // ordered by index
	events nvml.EventSet

	// mu guards what others read, and keeps NVML from being shut down under them.
	mu      sync.RWMutex
	closed  bool
	driver  Driver
	devices []Device
	handles map[string]handle // by UUID
}

// handle is what NVML reads a device by.
type handle struct {
	device nvml.Device
	whole  nvml.Device // the GPU of a MIG instance, or the same
}

// These go by real time, whatever the deployment's clock says: the hardware
// does.
const (
	lookAgain = 5 * time.Second
	listenFor = 500 * time.Millisecond // how long Close may take
)

func (r *reader) readDriver() {
	d := Driver{}
	d.Version, _ = r.lib.SystemGetDriverVersion() // "" where it is not told
	if r.can["nvmlSystemGetCudaDriverVersion"] {
		if v, ret := r.lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			d.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
	}
	r.mu.Lock()
	r.driver = d
	r.mu.Unlock()
}

func (r *reader) watch() {
	looked := time.Now()
	for !r.waitStopped(0) {
		if r.hear() || time.Since(looked) >= lookAgain {
			r.refresh()
			looked = time.Now()
		}
	}
}

// waitStopped waits a while for the end.
func (r *reader) waitStopped(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-r.stop:
		return true
	case <-timer.C:
		return false
	}
}

// publish makes what was seen the inventory.
func (r *reader) publish() {
	var devices []Device
	handles := map[string]handle{}
	for _, g := range r.gpus {
		for _, d := range g.devices {
			d.Index, d.Fault = g.index, g.faultOf(d)
			devices = append(devices, d.Device)
			handles[d.UUID] = d.handle
		}
	}
	r.mu.Lock()
	before := r.devices
	r.devices, r.handles = devices, handles
	r.mu.Unlock()
	if slices.Equal(before, devices) {
		return
	}
	r.report(before, devices)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// report logs what failed and what returned since.
func (r *reader) report(before, after []Device) {
	fault := map[string]string{}
	for _, d := range before {
		fault[d.UUID] = d.Fault
	}
	for _, d := range after {
		switch was := fault[d.UUID]; {
		case d.Fault != "" && d.Fault != was:
			r.log.Warn("a GPU can't be used", "gpu", d.UUID, "type", d.TypeID, "index", d.Index, "reason", d.Fault)
		case d.Fault == "" && was != "":
			r.log.Info("a GPU can be used again", "gpu", d.UUID, "type", d.TypeID, "index", d.Index)
		}
	}
}

func (r *reader) Driver() Driver {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.driver
}

func (r *reader) Devices() []Device {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.devices)
}

func (r *reader) Changed() <-chan struct{} { return r.changed }

func (r *reader) Close() {
	r.stopping.Do(func() { close(r.stop) })
	r.watching.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.end()
	}
}
