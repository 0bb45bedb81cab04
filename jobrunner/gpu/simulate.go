package gpu

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

//go:embed presets/*.yaml
var presets embed.FS

// Presets lists the names of the embedded simulated machines.
func Presets() (names []string) {
	files, _ := presets.ReadDir("presets") // never fails: the folder is embedded
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// Simulate returns the inventory of a simulated machine: a preset by name, or a file in YAML or JSON
// (docs/reference/gpu.md). The file is read again when it changes, so that devices can fail, recover
// and be replaced. If the new content is invalid, the error is logged and the inventory doesn't
// change. Errors name the line.
func Simulate(spec string, log *slog.Logger) (Inventory, error) {
	s := &simulated{name: spec, log: log, inUse: map[string]bool{}, changed: make(chan struct{}, 1), stop: func() {}}
	text, err := presets.ReadFile(path.Join("presets", spec+".yaml"))
	isPreset := err == nil && fs.ValidPath(spec)
	if !isPreset {
		if text, err = flagfile.Read(spec); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("simulated GPUs: file %s not found, and it is not a preset: expected a file or one of %s", spec, strings.Join(Presets(), ", "))
		} else if err != nil {
			return nil, fmt.Errorf("simulated GPUs: %w", err)
		}
	}
	if s.driver, s.devices, err = readMachine(spec, text); err != nil {
		return nil, fmt.Errorf("simulated GPUs: %w", err)
	}
	if !isPreset {
		s.stop = yamlfile.Watch(spec, text, s.reread)
	}
	return s, nil
}

func IsSimulated(i Inventory) bool {
	s, ok := i.(*simulated)
	return ok && s.name != ""
}

type simulated struct {
	name    string // "" for a machine without GPUs
	log     *slog.Logger
	changed chan struct{}
	stop    func() // stops watching the file

	mu      sync.Mutex
	driver  Driver
	devices []Device
	inUse   map[string]bool // by UUID
}

func (s *simulated) reread(text []byte, err error) {
	var driver Driver
	var devices []Device
	if err == nil {
		driver, devices, err = readMachine(s.name, text)
	}
	if err != nil {
		s.log.Error("reading the file of the simulated GPUs failed: the current GPUs stay", "error", err)
		return
	}
	s.mu.Lock()
	s.driver, s.devices = driver, devices
	s.mu.Unlock()
	s.log.Info("the simulated GPUs changed", "file", s.name, "gpus", Summary(s))
	notify.Signal(s.changed)
}

func (s *simulated) Driver() Driver {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.driver
}

func (s *simulated) Devices() []Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.devices)
}

func (s *simulated) Changed() <-chan struct{} { return s.changed }

func (s *simulated) Close() { s.stop() }

// SetInUse sets whether a device is in use, so that its samples show load.
func (s *simulated) SetInUse(uuid string, inUse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse[uuid] = inUse
}

func (s *simulated) Sample(uuid string) (Sample, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		if d.UUID == uuid {
			return d.simulatedSample(s.inUse[uuid]), nil
		}
	}
	return Sample{}, UnknownDevice(uuid)
}

// simulatedSample returns the sample of a busy or idle device. As on real machines, a MIG instance doesn't
// report utilization and power, and a faulty device reports nothing.
func (d Device) simulatedSample(busy bool) Sample {
	if d.Fault != "" {
		return UnknownSample
	}
	out := Sample{Utilization: 0, MemoryUsed: d.Memory / 100, Power: 75_000, Temperature: 32}
	if busy {
		out = Sample{Utilization: 96, MemoryUsed: d.Memory / 100 * 70, Power: 540_000, Temperature: 66}
	}
	if d.MIG != "" {
		out.Utilization, out.Power = -1, -1
	}
	return out
}
