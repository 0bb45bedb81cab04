package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

type machineFile struct {
	Driver struct {
		Version scalar `yaml:"version"`
		CUDA    scalar `yaml:"cuda"`
	} `yaml:"driver"`
	GPUs []yamlfile.Entry[machineGPU] `yaml:"gpus"`
}

type scalar = yamlfile.Text

type machineGPU struct {
	Type   scalar           `yaml:"type"`
	Count  *yamlfile.Number `yaml:"count"`  // default: 1
	Memory *yamlfile.Number `yaml:"memory"` // GB; default: the catalog's
	Fault  string           `yaml:"fault"`
	MIG    *[]scalar        `yaml:"mig"` // profiles of its instances; null if MIG is off
}

const (
	defaultDriver = "570.86.15"
	defaultCUDA   = "12.8"
	maxGPUs       = 64
	maxSlices     = 7       // MIG slices of a GPU
	maxMemory     = 1 << 20 // GB
	gibibyte      = 1 << 30
)

var (
	cudaPattern    = regexp.MustCompile(`^\d{1,4}\.\d{1,4}$`)
	profilePattern = regexp.MustCompile(`^(?:\dc\.)?([1-7])g\.(\d{1,4})gb(?:[+-][a-z.]+)?$`)
)

// readMachine reads a simulated machine from YAML or JSON. The error starts with name:line.
func readMachine(name string, content []byte) (driver Driver, devices []Device, err error) {
	var m machineFile
	if err := yamlfile.Decode(name, content, &m); err != nil {
		return driver, nil, err
	}
	driver = Driver{Version: cmp.Or(m.Driver.Version.Value, defaultDriver), CUDA: cmp.Or(m.Driver.CUDA.Value, defaultCUDA)}
	if !cudaPattern.MatchString(driver.CUDA) {
		return driver, nil, yamlfile.ErrorAt(name, m.Driver.CUDA.Line, "invalid CUDA version %q: expected for example 12.8", driver.CUDA)
	}
	index := 0
	for _, g := range m.GPUs {
		memory, line, err := g.Value.check()
		if err != nil {
			return driver, nil, yamlfile.ErrorAt(name, cmp.Or(line, g.Line), "%s", err)
		}
		count := 1
		if g.Value.Count != nil {
			count = int(g.Value.Count.Value)
		}
		if index+count > maxGPUs {
			return driver, nil, yamlfile.ErrorAt(name, g.Line, "too many GPUs: expected at most %d", maxGPUs)
		}
		for range count {
			devices = append(devices, g.Value.devices(index, memory)...)
			index++
		}
	}
	return driver, devices, nil
}

// check returns the memory in bytes, or an error and its line. Line 0 means the line of the GPU's entry.
func (g machineGPU) check() (memory int64, line int, err error) {
	if g.Type.Value == "" {
		return 0, 0, errors.New("missing type: expected for example type: NVIDIA H200")
	}
	if c := g.Count; c != nil && (c.Value < 1 || c.Value > maxGPUs) {
		return 0, c.Line, fmt.Errorf("invalid count: expected 1 to %d, got %d", maxGPUs, c.Value)
	}
	entry, ok := catalog.Builtin().GPUByID(CanonicalType(g.Type.Value))
	switch m := g.Memory; {
	case m != nil && (m.Value < 1 || m.Value > maxMemory):
		return 0, m.Line, fmt.Errorf("invalid memory: expected 1 to %d GB, got %d", maxMemory, m.Value)
	case m != nil:
		entry.Memory = m.Value
	case !ok:
		return 0, g.Type.Line, fmt.Errorf("missing memory: the catalog has no GPU type %q, so set its memory in GB, for example memory: 24", g.Type.Value)
	}
	if g.MIG == nil {
		return entry.Memory * gibibyte, 0, nil
	}
	slices := 0
	for _, p := range *g.MIG {
		match := profilePattern.FindStringSubmatch(p.Value)
		if match == nil {
			return 0, p.Line, fmt.Errorf("invalid MIG profile %q: expected for example 1g.18gb", p.Value)
		}
		n, _ := strconv.Atoi(match[1]) // a digit
		if slices += n; slices > maxSlices {
			return 0, p.Line, fmt.Errorf("too many MIG instances: expected at most %d slices, got %d", maxSlices, slices)
		}
	}
	return entry.Memory * gibibyte, 0, nil
}

// devices returns one GPU, or its MIG instances. A UUID depends only on the index of the GPU and of the
// instance, so it stays the same when the file changes.
func (g machineGPU) devices(index int, memory int64) (devices []Device) {
	gpu := Device{UUID: "GPU-" + simulatedUUID(index, -1), Index: index, TypeID: CanonicalType(g.Type.Value), Memory: memory, Fault: g.Fault}
	if g.MIG == nil {
		return []Device{gpu}
	}
	for i, profile := range *g.MIG {
		d := gpu
		size, _ := strconv.ParseInt(profilePattern.FindStringSubmatch(profile.Value)[2], 10, 64) // at most four digits
		d.UUID, d.MIG, d.Memory = "MIG-"+simulatedUUID(index, i), profile.Value, size*gibibyte
		d.TypeID = InstanceType(gpu.TypeID, profile.Value)
		devices = append(devices, d)
	}
	return devices
}

func simulatedUUID(index, instance int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "simulated GPU %d.%d", index, instance)).String()
}
