package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

// machine is the file of a simulated machine.
type machine struct {
	Driver struct {
		Version verbatim `yaml:"version"`
		CUDA    verbatim `yaml:"cuda"`
	} `yaml:"driver"`
	GPUs []machineGPU `yaml:"gpus"`
}

// verbatim is a scalar as written: 12.10 is a version, not the number 12.1.
type verbatim string

func (v *verbatim) UnmarshalYAML(node ast.Node) error {
	if _, ok := node.(ast.ScalarNode); !ok {
		return &yaml.SyntaxError{Token: node.GetToken(), Message: "invalid version: expected for example 12.8"}
	}
	*v = verbatim(node.GetToken().Value)
	return nil
}

type machineGPU struct {
	Type   string           `yaml:"type"`
	Count  *yamlfile.Number `yaml:"count"`  // default: 1
	Memory *yamlfile.Number `yaml:"memory"` // GB; default: the catalog's
	Fault  string           `yaml:"fault"`
	MIG    *[]string        `yaml:"mig"` // profiles of its instances; null if MIG is off
}

// Defaults and limits of a simulated machine.
const (
	defaultDriver = "570.86.15"
	defaultCUDA   = "12.8"
	maxGPUs       = 64
	maxSlices     = 7 // MIG slices of a GPU
	maxMemory     = 1 << 20
	gigabyte      = 1 << 30
)

var (
	cudaPattern    = regexp.MustCompile(`^\d{1,4}\.\d{1,4}$`)
	profilePattern = regexp.MustCompile(`^(?:\dc\.)?(\d)g\.(\d{1,4})gb(?:[+-][a-z.]+)?$`)
)

// readMachine reads a simulated machine from YAML or JSON. The error starts with name:line.
func readMachine(name string, text []byte) (Driver, []Device, error) {
	var m machine
	if err := yamlfile.Decode(name, text, &m); err != nil {
		return Driver{}, nil, err
	}
	driver, devices, path, err := m.devices()
	if err != nil {
		return Driver{}, nil, yamlfile.At(name, pathLine(text, path), "%s", err)
	}
	return driver, devices, nil
}

// devices lists the machine's devices, or returns an error and the path of the invalid member.
func (m machine) devices() (driver Driver, devices []Device, path string, err error) {
	driver = Driver{Version: cmp.Or(string(m.Driver.Version), defaultDriver), CUDA: cmp.Or(string(m.Driver.CUDA), defaultCUDA)}
	if !cudaPattern.MatchString(driver.CUDA) {
		return driver, nil, "$.driver.cuda", fmt.Errorf("invalid CUDA version %q: expected for example 12.8", driver.CUDA)
	}
	index := 0
	for i, g := range m.GPUs {
		gpuPath := fmt.Sprintf("$.gpus[%d]", i)
		memory, member, err := g.check()
		if err != nil {
			return driver, nil, gpuPath + member, err
		}
		count := 1
		if g.Count != nil {
			count = int(*g.Count)
		}
		if index+count > maxGPUs {
			return driver, nil, gpuPath, fmt.Errorf("too many GPUs: expected at most %d", maxGPUs)
		}
		for range count {
			devices = append(devices, g.device(index, memory)...)
			index++
		}
	}
	return driver, devices, "", nil
}

// check returns the memory in bytes, or an error and the invalid member.
func (g machineGPU) check() (memory int64, member string, err error) {
	if g.Type == "" {
		return 0, "", errors.New("missing type: expected for example type: NVIDIA H200")
	}
	if g.Count != nil && (*g.Count < 1 || *g.Count > maxGPUs) {
		return 0, ".count", fmt.Errorf("invalid count: expected 1 to %d, got %d", maxGPUs, *g.Count)
	}
	entry, ok := catalog.Builtin().GPUByID(Canonical(g.Type))
	switch {
	case g.Memory != nil && (*g.Memory < 1 || *g.Memory > maxMemory):
		return 0, ".memory", fmt.Errorf("invalid memory: expected 1 to %d GB, got %d", maxMemory, *g.Memory)
	case g.Memory != nil:
		entry.Memory = int64(*g.Memory)
	case !ok:
		return 0, ".type", fmt.Errorf("missing memory: the catalog has no GPU type %q, so set its memory in GB, for example memory: 24", g.Type)
	}
	if g.MIG == nil {
		return entry.Memory * gigabyte, "", nil
	}
	slices := 0
	for i, p := range *g.MIG {
		match := profilePattern.FindStringSubmatch(p)
		if match == nil {
			return 0, fmt.Sprintf(".mig[%d]", i), fmt.Errorf("invalid MIG profile %q: expected for example 1g.18gb", p)
		}
		n, _ := strconv.Atoi(match[1]) // a digit
		slices += n
	}
	if slices > maxSlices {
		return 0, ".mig", fmt.Errorf("too many MIG instances: expected at most %d slices, got %d", maxSlices, slices)
	}
	return entry.Memory * gigabyte, "", nil
}

// device returns one GPU, or its MIG instances. The UUID depends only on the index, so it stays the
// same when the file changes.
func (g machineGPU) device(index int, memory int64) (devices []Device) {
	gpu := Device{UUID: "GPU-" + simulatedUUID(index, -1), Index: index, TypeID: Canonical(g.Type), Memory: memory, Fault: g.Fault}
	if g.MIG == nil {
		return []Device{gpu}
	}
	for i, profile := range *g.MIG {
		d := gpu
		size, _ := strconv.ParseInt(profilePattern.FindStringSubmatch(profile)[2], 10, 64) // at most four digits
		d.UUID, d.MIG, d.Memory = "MIG-"+simulatedUUID(index, i), profile, size*gigabyte
		d.TypeID = InstanceType(gpu.TypeID, profile)
		devices = append(devices, d)
	}
	return devices
}

func simulatedUUID(index, instance int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "simulated GPU %d.%d", index, instance)).String()
}

// pathLine finds the line of a path, or of its nearest ancestor.
func pathLine(text []byte, path string) int {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return 1
	}
	for ; path != "" && path != "$"; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		yamlPath, err := yaml.PathString(path)
		if err != nil {
			return 1
		}
		if node, err := yamlPath.FilterFile(file); err == nil && node != nil {
			return yamlfile.LineOf(node)
		}
	}
	return 1
}
