//go:build linux && cgo

package nvidia_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu/nvidia"
)

// board is go-nvml's mock of a machine, with the missing calls added.
type board struct {
	*server.Server
	mu               *sync.Mutex // guards the fields that change during the watch, also of the cards
	cards            []*card
	events           chan nvml.EventData
	missingFunctions []string // functions that the driver does not have
	unloaded         bool     // the driver was unloaded
	initialized      bool     // NVML is initialized
	shutdowns        int
}

// card is a GPU of a board.
type card struct {
	*server.Device
	mu            *sync.Mutex
	lost          bool
	instances     []*mock.Device
	recovery      *uint32 // nil if the driver doesn't report it
	ecc           uint64
	remapFailed   bool
	registrations int
}

func lock(mu *sync.Mutex) (unlock func()) {
	mu.Lock()
	return mu.Unlock
}

func newBoard(names ...string) *board {
	b := &board{Server: dgxa100.New(), events: make(chan nvml.EventData), mu: new(sync.Mutex)}
	b.DriverVersion, b.CudaDriverVersion = "570.86.15", 12080
	for i, name := range names {
		b.cards = append(b.cards, newCard(i, name, b.mu))
	}
	b.InitFunc = func() nvml.Return {
		defer lock(b.mu)()
		b.initialized = !b.unloaded
		if b.unloaded {
			return nvml.ERROR_DRIVER_NOT_LOADED
		}
		return nvml.SUCCESS
	}
	b.ShutdownFunc = func() nvml.Return {
		defer lock(b.mu)()
		b.shutdowns++
		b.initialized = false
		return nvml.SUCCESS
	}
	b.SystemGetDriverVersionFunc = func() (string, nvml.Return) {
		defer lock(b.mu)()
		return b.DriverVersion, nvml.SUCCESS
	}
	b.SystemGetCudaDriverVersionFunc = func() (int, nvml.Return) {
		defer lock(b.mu)()
		return b.CudaDriverVersion, nvml.SUCCESS
	}
	b.LookupSymbolFunc = func(symbol string) error {
		if slices.Contains(b.missingFunctions, symbol) {
			return errors.New("undefined symbol")
		}
		return nil
	}
	b.DeviceGetCountFunc = func() (int, nvml.Return) {
		defer lock(b.mu)()
		if b.unloaded || !b.initialized {
			return 0, nvml.ERROR_UNINITIALIZED
		}
		return len(b.cards), nvml.SUCCESS
	}
	b.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		defer lock(b.mu)()
		if b.cards[i].lost {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return b.cards[i], nvml.SUCCESS
	}
	b.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{
			FreeFunc: func() nvml.Return { return nvml.SUCCESS },
			WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
				select {
				case e := <-b.events:
					return e, nvml.SUCCESS
				case <-time.After(time.Duration(ms) * time.Millisecond):
					return nvml.EventData{}, nvml.ERROR_TIMEOUT
				}
			},
		}, nvml.SUCCESS
	}
	return b
}

func newCard(index int, name string, mu *sync.Mutex) *card {
	c := &card{Device: dgxa100.NewDevice(index), mu: mu}
	c.UUID, c.Config.Name = fmt.Sprintf("GPU-%d", index), name
	c.MemoryInfo = nvml.Memory{Total: 141 << 30, Used: 4 << 30}
	result := func() nvml.Return {
		defer lock(c.mu)()
		if c.lost {
			return nvml.ERROR_GPU_IS_LOST
		}
		return nvml.SUCCESS
	}
	c.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return c.MemoryInfo, result() }
	c.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{Used: 3 << 30}, result() }
	c.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 37}, result() }
	c.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 250_000, result() }
	c.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 55, result() }
	c.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return c.ecc, result() }
	c.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, c.remapFailed, result() }
	c.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		c.mu.Lock()
		values[0].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
		if c.recovery != nil {
			values[0].NvmlReturn = uint32(nvml.SUCCESS)
			binary.NativeEndian.PutUint32(values[0].Value[:], *c.recovery)
		}
		c.mu.Unlock()
		return result()
	}
	c.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypeAll, nvml.SUCCESS }
	c.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { c.registrations++; return nvml.SUCCESS }
	c.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	c.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		defer lock(c.mu)()
		if i >= len(c.instances) || c.instances[i] == nil {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return c.instances[i], nvml.SUCCESS
	}
	return c
}

// instance returns a MIG instance. Without a name it reports its size.
func instance(id int, name string) *mock.Device {
	return &mock.Device{
		GetUUIDFunc:          func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d", id), nvml.SUCCESS },
		GetNameFunc:          func() (string, nvml.Return) { return name, nvml.SUCCESS },
		GetMemoryInfoFunc:    func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 16 << 30, Used: 2 << 30}, nvml.SUCCESS },
		GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{Used: 1 << 30}, nvml.SUCCESS },
		GetGpuInstanceIdFunc: func() (int, nvml.Return) { return id, nvml.SUCCESS },
		GetAttributesFunc: func() (nvml.DeviceAttributes, nvml.Return) {
			return nvml.DeviceAttributes{GpuInstanceSliceCount: 1, MemorySizeMB: 16_384}, nvml.SUCCESS
		},
	}
}

// update changes the machine during the watch.
func (b *board) update(change func()) {
	defer lock(b.mu)()
	change()
}

func (b *board) sendXID(c *card, number uint64, instance uint32) {
	b.events <- nvml.EventData{Device: c, EventType: nvml.EventTypeXidCriticalError, EventData: number, GpuInstanceId: instance}
	synctest.Wait()
}

const wholeGPU = 0xFFFFFFFF // the instance id in an event of the whole GPU

func open(t *testing.T, b *board) gpu.Inventory {
	t.Helper()
	inventory := must.Do(nvidia.OpenLibrary(b, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(inventory.Close)
	return inventory
}

// faults returns the faults of an inventory, by UUID.
func faults(inventory gpu.Inventory) string {
	var out []string
	for _, d := range inventory.Devices() {
		if d.Fault != "" {
			out = append(out, d.UUID+": "+d.Fault)
		}
	}
	return strings.Join(out, "; ")
}

func waitTwoPolls() {
	time.Sleep(12 * time.Second) // two polls; virtual time
	synctest.Wait()
}

func TestNVMLInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard("NVIDIA H200", "A100-SXM4-80GB", "NVIDIA  TITAN RTX", "NVIDIA H200", "NVIDIA H200")
		b.cards[3].MigMode, b.cards[3].instances = nvml.DEVICE_MIG_ENABLE, []*mock.Device{nil, instance(5, "NVIDIA H200 MIG 1g.18gb"), instance(6, "")}
		b.cards[4].MigMode = nvml.DEVICE_MIG_ENABLE
		inventory := open(t, b)
		must.Equal(t, inventory.Driver(), gpu.Driver{Version: "570.86.15", CUDA: "12.8"}, "driver")
		const memory = 141 << 30
		want := []gpu.Device{
			{UUID: "GPU-0", Index: 0, TypeID: "NVIDIA H200", Memory: memory},
			{UUID: "GPU-1", Index: 1, TypeID: "NVIDIA A100-SXM4-80GB", Memory: memory},
			{UUID: "GPU-2", Index: 2, TypeID: "NVIDIA TITAN RTX", Memory: memory},
			{UUID: "MIG-5", Index: 3, TypeID: "NVIDIA H200 MIG 1g.18gb", MIG: "1g.18gb", Memory: 16 << 30},
			{UUID: "MIG-6", Index: 3, TypeID: "NVIDIA H200 MIG 1g.16gb", MIG: "1g.16gb", Memory: 16 << 30},
		}
		must.Equal(t, inventory.Devices(), want, "devices")
		for uuid, want := range map[string]gpu.Sample{
			"GPU-0": {Utilization: 37, MemoryUsed: 3 << 30, Power: 250_000, Temperature: 55},
			"MIG-5": {Utilization: -1, MemoryUsed: 1 << 30, Power: -1, Temperature: 55},
		} {
			must.Equal(t, must.Do(inventory.Sample(uuid))(t), want, uuid)
		}
		must.Hold(t, must.Err(inventory.Sample("GPU-3")) != nil, "a GPU in MIG mode is listed as a device")
		answer := make(chan nvml.Return) // a GPU that hangs doesn't block the others
		b.cards[0].GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, <-answer }
		go func() { _ = must.Err(inventory.Sample("GPU-0")) }()
		synctest.Wait()
		b.sendXID(b.cards[1], 79, wholeGPU)
		<-inventory.Changed()
		answer <- nvml.SUCCESS
		inventory.Close()
		must.Hold(t, must.Err(inventory.Sample("GPU-0")) != nil, "Sample succeeds after Close")
		inventory.Close()
		must.Equal(t, b.shutdowns, 1, "calls of shutdown")
		t.Setenv("CUDA_VISIBLE_DEVICES", "2, MIG-5,GPU-1")
		must.Equal(t, open(t, b).Devices(), want[1:4], "visible devices")
	})
}

// A missing driver is a one-line error, not a crash.
func TestNVMLUnavailable(t *testing.T) {
	for ret, want := range map[nvml.Return]string{
		nvml.ERROR_LIBRARY_NOT_FOUND:       "there is no NVIDIA driver (libnvidia-ml.so.1 was not found)",
		nvml.ERROR_DRIVER_NOT_LOADED:       "the kernel module of the NVIDIA driver is not loaded (modprobe nvidia)",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: "library and kernel module of the NVIDIA driver have different versions; a reboot loads the new one",
		nvml.ERROR_NO_PERMISSION:           "this user has no permission to use the NVIDIA driver (check the permissions of /dev/nvidia*)",
		nvml.ERROR_UNKNOWN:                 "the NVIDIA driver does not start: ERROR_UNKNOWN",
	} {
		b := newBoard("NVIDIA H200")
		b.InitFunc = func() nvml.Return { return ret }
		must.Equal(t, fmt.Sprint(must.Err(nvidia.OpenLibrary(b, slog.New(slog.DiscardHandler)))), want, ret)
	}
	b := newBoard()
	_, err := nvidia.OpenLibrary(b, slog.New(slog.DiscardHandler))
	must.Hold(t, err != nil && strings.Contains(err.Error(), "lists no GPU") && b.shutdowns == 1, "a driver without GPUs is reported as", err, "after", b.shutdowns, "shutdowns")
}

// Functions missing from an old driver aren't called.
func TestOldDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard("Tesla V100-SXM2-32GB")
		b.missingFunctions = []string{
			"nvmlSystemGetCudaDriverVersion", "nvmlDeviceGetFieldValues", "nvmlDeviceGetRemappedRows",
			"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
			"nvmlDeviceGetMemoryInfo_v2",
		}
		crash := func(name string) { t.Errorf("%s is called", name) }
		b.SystemGetCudaDriverVersionFunc = func() (int, nvml.Return) { crash("cuda"); return 0, 0 }
		c := b.cards[0]
		c.GetFieldValuesFunc = func([]nvml.FieldValue) nvml.Return { crash("fields"); return 0 }
		c.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { crash("rows"); return 0, 0, false, false, 0 }
		c.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { crash("memory"); return nvml.Memory_v2{}, 0 }
		c.GetMigModeFunc = func() (int, int, nvml.Return) { crash("mig"); return 0, 0, 0 }
		b.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
		c.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		inventory := open(t, b)
		waitTwoPolls()
		s := must.Do(inventory.Sample("GPU-0"))(t)
		must.Hold(t, s.Power == -1 && s.Utilization == 37 && s.MemoryUsed == 4<<30, "the sample is", s, "want no power, and the memory of the older call")
		d := inventory.Devices()
		must.Hold(t, len(d) == 1 && inventory.Driver().CUDA == "", "the devices are", d, "with CUDA", inventory.Driver().CUDA, "want one device and no version")
		a := gpu.NewAllocator(inventory)
		defer a.Close()
		must.Equal(t, fmt.Sprint(must.Err(a.Acquire(gpu.Request{MinimumCUDA: "12.0"}, "w"))), "the CUDA version of this machine's driver is unknown, and the endpoint asks for at least 12.0")
	})
}

// A program's fault leaves the GPU healthy, and other faults make the GPU unusable at once.
func TestXIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard("NVIDIA H200", "NVIDIA H200")
		inventory := open(t, b)
		for _, harmless := range []uint64{13, 31, 43, 45, 63, 68, 94, 109} {
			b.sendXID(b.cards[0], harmless, wholeGPU)
		}
		must.Equal(t, faults(inventory), "", "the faults after errors of a program")
		b.sendXID(b.cards[1], 79, wholeGPU)
		<-inventory.Changed()
		must.Equal(t, faults(inventory), "GPU-1: XID 79: it has fallen off the bus")
		b.sendXID(b.cards[0], 4242, wholeGPU)
		waitTwoPolls() // this driver doesn't report a recovery
		must.Equal(t, faults(inventory), "GPU-0: XID 4242; GPU-1: XID 79: it has fallen off the bus")
		b.events <- nvml.EventData{Device: b.cards[0], EventType: nvml.EventTypeDoubleBitEccError, GpuInstanceId: wholeGPU}
		synctest.Wait()
		got := faults(inventory)
		must.Hold(t, strings.HasPrefix(got, "GPU-0: an uncorrectable error in its memory (ECC)"), "after a memory error the faults are", got)
	})
}

// A fault of a MIG instance leaves the GPU's other instances healthy.
func TestInstanceXID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard("NVIDIA H200")
		c := b.cards[0]
		c.MigMode, c.instances = nvml.DEVICE_MIG_ENABLE, []*mock.Device{instance(1, "NVIDIA H200 MIG 1g.18gb"), instance(2, "NVIDIA H200 MIG 1g.18gb")}
		inventory := open(t, b)
		b.sendXID(c, 95, 2)
		waitTwoPolls()
		must.Equal(t, faults(inventory), "MIG-2: XID 95: an uncontained error in its memory")
		b.sendXID(c, 79, wholeGPU)
		must.Equal(t, faults(inventory), "MIG-1: XID 79: it has fallen off the bus; MIG-2: XID 79: it has fallen off the bus")
		// Instances are created and removed at run time.
		b.update(func() { c.instances = c.instances[:1] })
		waitTwoPolls()
		got := inventory.Devices()
		must.Hold(t, len(got) == 1, "after an instance was removed the devices are", got, "want one")
	})
}

// The driver's recovery action decides if the driver supports it.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard("NVIDIA H200")
		c := b.cards[0]
		none, reset, unknown := uint32(nvml.GPU_RECOVERY_ACTION_NONE), uint32(nvml.GPU_RECOVERY_ACTION_GPU_RESET), uint32(99)
		c.recovery, c.ecc = &none, 3 // contained errors
		inventory := open(t, b)
		must.Equal(t, faults(inventory), "")
		b.sendXID(c, 119, wholeGPU)
		must.Equal(t, faults(inventory), "GPU-0: XID 119: its system processor doesn't answer")
		b.update(func() { c.recovery = &reset })
		waitTwoPolls()
		must.Equal(t, faults(inventory), "GPU-0: it needs a reset (nvidia-smi --gpu-reset)")
		b.update(func() { c.recovery = &unknown })
		waitTwoPolls()
		must.Equal(t, faults(inventory), "GPU-0: the driver requires a recovery (action 99)")
		b.update(func() { c.recovery = &none })
		waitTwoPolls()
		must.Equal(t, faults(inventory), "", "the faults after the recovery")
	})
}

func TestMemoryErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard("NVIDIA H200", "NVIDIA H200")
		b.cards[0].ecc, b.cards[1].remapFailed = 2, true
		inventory := open(t, b)
		must.Equal(t, faults(inventory), "GPU-0: 2 uncorrectable errors in its memory (ECC): it needs a reset (nvidia-smi --gpu-reset); "+
			"GPU-1: bad rows of its memory could not be remapped: the card must be replaced")
	})
}

// A lost GPU stays in the inventory with a fault, and is healthy when it returns.
func TestLostGPUReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard("NVIDIA H200", "NVIDIA H200")
		inventory := open(t, b)
		b.sendXID(b.cards[1], 79, wholeGPU)
		b.update(func() { b.cards[1].lost = true })
		waitTwoPolls()
		must.Equal(t, faults(inventory), "GPU-1: lost: ERROR_GPU_IS_LOST")
		must.Equal(t, must.Do(inventory.Sample("GPU-1"))(t), gpu.UnknownSample)
		b.update(func() { b.cards[1].lost = false })
		waitTwoPolls()
		must.Equal(t, faults(inventory), "", "the faults after its return")
		must.Equal(t, b.cards[1].registrations, 2, "registrations of its events")
		b.update(func() { b.cards = b.cards[:1] })
		waitTwoPolls()
		must.Equal(t, faults(inventory), "GPU-1: lost: the driver no longer lists it")
		got := must.Do(inventory.Sample("GPU-1"))(t)
		must.Hold(t, got.Temperature == -1, "a sample of a removed GPU", got)
	})
}

// The GPUs are faulty while the driver is unloaded, and healthy afterwards.
func TestDriverIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard("NVIDIA H200")
		inventory := open(t, b)
		b.update(func() { b.unloaded = true })
		waitTwoPolls()
		must.Equal(t, faults(inventory), "GPU-0: the driver does not answer: ERROR_UNINITIALIZED")
		b.update(func() { b.unloaded, b.DriverVersion, b.CudaDriverVersion = false, "580.65.06", 13000 })
		waitTwoPolls()
		must.Equal(t, inventory.Driver(), gpu.Driver{Version: "580.65.06", CUDA: "13.0"}, "driver")
		must.Equal(t, faults(inventory), "", "faults")
		b.sendXID(b.cards[0], 79, wholeGPU) // the event is received again
		must.Hold(t, faults(inventory) != "", "no events are received after the reload")
	})
}
