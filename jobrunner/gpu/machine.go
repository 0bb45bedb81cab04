package gpu

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// machine is the file of a simulated machine.
type machine struct {
	Driver struct {
		Version verbatim `yaml:"version"`
		CUDA    verbatim `yaml:"cuda"`
	} `yaml:"driver"`
	GPUs []machineGPU `yaml:"gpus"`
}

// verbatim is a scalar as written: 12.10 is a version, not the number
// 12.1.
type verbatim string

func (v *verbatim) UnmarshalYAML(node ast.Node) error {
	if _, ok := node.(ast.ScalarNode); !ok {
		return &yaml.SyntaxError{Token: node.GetToken(), Message: "a version is written like 12.8"}
	}
	*v = verbatim(node.GetToken().Value)
	return nil
}

type machineGPU struct {
	Type   string    `yaml:"type"`
	Count  *int      `yaml:"count"`  // default: 1
	Memory *int64    `yaml:"memory"` // GB; default: the catalog's
	Fault  string    `yaml:"fault"`
	MIG    *[]string `yaml:"mig"` // profiles of its instances; null: a whole GPU
}

// Defaults and limits of a simulated machine.
const (
	defaultDriver  = "570.86.15"
	defaultCUDA    = "12.8"
	maxGPUs        = 64
	maxSlices      = 7 // of a GPU that is split
	maxMemory      = 1 << 20
	gigabyte       = 1 << 30
	maxMachineFile = 1 << 20
)

var (
	cudaForm    = regexp.MustCompile(`^\d{1,4}\.\d{1,4}$`)
	profileForm = regexp.MustCompile(`^(?:\dc\.)?(\d)g\.(\d{1,4})gb(?:[+-][a-z.]+)?$`)
)

// readMachine reads a simulated machine from YAML, of which JSON is a part. The
// error starts with the line, as name:line.
func readMachine(name string, text []byte) (Driver, []Device, error) {
	if len(text) > maxMachineFile {
		return Driver{}, nil, fmt.Errorf("%s: the file has %d bytes, more than a machine needs (%d)", name, len(text), maxMachineFile)
	}
	var m machine
	if err := yaml.UnmarshalWithOptions(text, &m, yaml.Strict()); err != nil {
		if e, ok := errors.AsType[yaml.Error](err); ok {
			return Driver{}, nil, fmt.Errorf("%s:%d: %s", name, e.GetToken().Position.Line, e.GetMessage())
		}
		return Driver{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	driver, devices, at, err := m.devices()
	if err != nil {
		return Driver{}, nil, fmt.Errorf("%s:%d: %w", name, lineOf(text, at), err)
	}
	return driver, devices, nil
}

// devices lists the machine's devices, or returns an error and the invalid member's path.
func (m machine) devices() (driver Driver, devices []Device, at string, err error) {
	driver = Driver{Version: orDefault(string(m.Driver.Version), defaultDriver), CUDA: orDefault(string(m.Driver.CUDA), defaultCUDA)}
	if !cudaForm.MatchString(driver.CUDA) {
		return driver, nil, "$.driver.cuda", fmt.Errorf("invalid CUDA version %q: expected for example 12.8", driver.CUDA)
	}
	index := 0
	for i, g := range m.GPUs {
		path := fmt.Sprintf("$.gpus[%d]", i)
		memory, member, err := g.check()
		if err != nil {
			return driver, nil, path + member, err
		}
		count := 1
		if g.Count != nil {
			count = *g.Count
		}
		if index+count > maxGPUs {
			return driver, nil, path, fmt.Errorf("more than %d GPUs", maxGPUs)
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
		return 0, "", errors.New("a GPU needs a type, such as type: NVIDIA H200")
	}
	if g.Count != nil && (*g.Count < 1 || *g.Count > maxGPUs) {
		return 0, ".count", fmt.Errorf("count %d is not from 1 to %d", *g.Count, maxGPUs)
	}
	known, ok := catalog.GPUByID(Canonical(g.Type))
	switch {
	case g.Memory != nil && (*g.Memory < 1 || *g.Memory > maxMemory):
		return 0, ".memory", fmt.Errorf("memory %d is not from 1 to %d GB", *g.Memory, maxMemory)
	case g.Memory != nil:
		known.Memory = *g.Memory
	case !ok:
		return 0, ".type", fmt.Errorf("the catalog has no GPU type %q, so its memory in GB is needed, such as memory: 24", g.Type)
	}
	if g.MIG == nil {
		return known.Memory * gigabyte, "", nil
	}
	slices := 0
	for i, p := range *g.MIG {
		form := profileForm.FindStringSubmatch(p)
		if form == nil {
			return 0, fmt.Sprintf(".mig[%d]", i), fmt.Errorf("invalid MIG profile %q: expected for example 1g.18gb", p)
		}
		n, _ := strconv.Atoi(form[1]) // a digit
		slices += n
	}
	if slices > maxSlices {
		return 0, ".mig", fmt.Errorf("the instances have %d slices together, and a GPU has %d", slices, maxSlices)
	}
	return known.Memory * gigabyte, "", nil
}

// device is one GPU, or its instances. The UUID depends on the index alone, so
// that it stays the same when the file changes.
func (g machineGPU) device(index int, memory int64) (devices []Device) {
	whole := Device{UUID: "GPU-" + identity(index, -1), Index: index, TypeID: Canonical(g.Type), Memory: memory, Fault: g.Fault}
	if g.MIG == nil {
		return []Device{whole}
	}
	for i, profile := range *g.MIG {
		d := whole
		size, _ := strconv.ParseInt(profileForm.FindStringSubmatch(profile)[2], 10, 64) // at most four digits
		d.UUID, d.MIG, d.Memory = "MIG-"+identity(index, i), profile, size*gigabyte
		d.TypeID = instanceType(whole.TypeID, profile)
		devices = append(devices, d)
	}
	return devices
}

func identity(index, instance int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "simulated GPU %d.%d", index, instance)).String()
}

// lineOf finds the line of a path, or of its nearest ancestor.
func lineOf(text []byte, at string) int {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return 1
	}
	for ; at != "" && at != "$"; at = at[:lastStep(at)] {
		path, err := yaml.PathString(at)
		if err != nil {
			return 1
		}
		if node, err := path.FilterFile(file); err == nil && node != nil {
			return line(node)
		}
	}
	return 1
}

// line is where a node starts: the token of a mapping is a colon after its
// first key, which may stand on the line above.
func line(node ast.Node) int {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken().Position.Line
	}
	return node.GetToken().Position.Line
}

func lastStep(path string) int {
	i := len(path) - 1
	for i > 0 && path[i] != '.' && path[i] != '[' {
		i--
	}
	return i
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
