package api

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
)

func endpointsV1(t *transport, s *shelf) Collection[Endpoint] {
	return &rest[Endpoint, endpointV1]{
		transport: t, shelf: s, kind: "endpoint", path: "/v1/endpoints", badIDIs400: true,
		full:       []string{"name", "templateId", "workersMin", "workersMax", "scalerType", "scalerValue"},
		id:         func(e Endpoint) string { return e.ID },
		name:       func(e Endpoint) string { return e.Name },
		secret:     secretOfEndpoint,
		fixed:      fixedOfEndpoint,
		comparable: comparableEndpoints,
		neutral:    endpointV1.neutral,
		create:     func(want Endpoint) (endpointV1, error) { return newEndpointV1(want, false) },
		update:     endpointPatchV1,
	}
}

type endpointV1 struct {
	ID                  *string   `json:"id,omitempty"`
	Name                *string   `json:"name,omitempty"`
	TemplateID          *string   `json:"templateId,omitempty"`
	ComputeType         *string   `json:"computeType,omitempty"` // GPU or CPU
	GPUTypeIDs          *[]string `json:"gpuTypeIds,omitempty"`  // in order of priority
	GPUCount            *int64    `json:"gpuCount,omitempty"`
	AllowedCUDAVersions *[]string `json:"allowedCudaVersions,omitempty"`
	MinCUDAVersion      *string   `json:"minCudaVersion,omitempty"`
	CPUFlavorIDs        *[]string `json:"cpuFlavorIds,omitempty"` // never answered
	VCPUCount           *int64    `json:"vcpuCount,omitempty"`    // never answered
	InstanceIDs         *[]string `json:"instanceIds,omitempty"`  // of answers only: both in one
	DataCenterIDs       *[]string `json:"dataCenterIds,omitempty"`
	NetworkVolumeID     *string   `json:"networkVolumeId,omitempty"` // of answers only
	NetworkVolumeIDs    *[]string `json:"networkVolumeIds,omitempty"`
	ExecutionTimeoutMS  *int64    `json:"executionTimeoutMs,omitempty"`
	FlashBoot           *bool     `json:"flashboot,omitempty"`   // not answered by every deployment
	IdleTimeout         *int64    `json:"idleTimeout,omitempty"` // s
	ScalerType          *string   `json:"scalerType,omitempty"`
	ScalerValue         *int64    `json:"scalerValue,omitempty"` // s or requests
	WorkersMin          *int64    `json:"workersMin,omitempty"`
	WorkersMax          *int64    `json:"workersMax,omitempty"`
	CreatedAt           *string   `json:"createdAt,omitempty"`

	Env map[string]string `json:"env,omitempty"` // of answers only
}

// groupsV1 are members of an endpoint that have one meaning together.
var groupsV1 = [][]string{
	{"cpuFlavorIds", "vcpuCount"},
	{"scalerType", "scalerValue"},
	{"workersMin", "workersMax", "idleTimeout"},
}

// allDataCentersV1 is what API v1 answers where no data center was chosen.
var allDataCentersV1 = []string{
	"AP-JP-1", "CA-MTL-1", "CA-MTL-2", "CA-MTL-3", "EU-CZ-1", "EU-FR-1", "EU-NL-1", "EU-RO-1", "EU-SE-1",
	"EUR-IS-1", "EUR-IS-2", "EUR-IS-3", "EUR-NO-1", "OC-AU-1", "US-CA-2", "US-DE-1", "US-GA-1", "US-GA-2",
	"US-IL-1", "US-KS-2", "US-KS-3", "US-NC-1", "US-TX-1", "US-TX-3", "US-TX-4", "US-WA-1",
}

// newEndpointV1 makes a request body. An update says what is empty, which
// clears it, and leaves out what is fixed at create.
func newEndpointV1(e Endpoint, update bool) (endpointV1, error) {
	w := endpointV1{
		Name:               filled(e.Name, false),
		TemplateID:         e.TemplateID,
		DataCenterIDs:      filledList(e.DataCenterIDs, update),
		NetworkVolumeIDs:   filledList(e.NetworkVolumes, update),
		ExecutionTimeoutMS: filled(e.Timeout, update),
		IdleTimeout:        e.Workers.IdleTimeout,
		WorkersMin:         &e.Workers.Min,
		WorkersMax:         &e.Workers.Max,
	}
	if e.Type != "" && e.Type != "QUEUE" {
		return w, inexpressible("type", e.Type)
	}
	for _, set := range []func(*endpointV1, Endpoint, bool) error{setGPUV1, setCPUV1, setScalingV1, setFlashBootV1} {
		if err := set(&w, e, update); err != nil {
			return w, err
		}
	}
	return w, nil
}

func setGPUV1(w *endpointV1, e Endpoint, update bool) error {
	if e.GPU == nil {
		return nil
	}
	w.GPUTypeIDs = filledList(e.GPU.TypeIDs, update)
	w.GPUCount = filled(e.GPU.Count, false)
	w.AllowedCUDAVersions = filledList(e.GPU.AllowedCUDAVersions, update)
	w.MinCUDAVersion = filled(e.GPU.MinCUDAVersion, update)
	if !update {
		w.ComputeType = new("GPU")
	}
	return nil
}

// setCPUV1 needs one vCPU count: v1 has the flavours in a list and one count
// for all.
func setCPUV1(w *endpointV1, e Endpoint, update bool) error {
	if len(e.CPU) == 0 {
		return nil
	}
	var flavors []string
	for _, cpu := range e.CPU {
		if cpu.VCPUCount != e.CPU[0].VCPUCount {
			return inexpressible("cpu", "with different vCPU counts")
		}
		flavors = append(flavors, cpu.ID)
	}
	w.CPUFlavorIDs, w.VCPUCount = &flavors, &e.CPU[0].VCPUCount
	if !update {
		w.ComputeType = new("CPU")
	}
	return nil
}

func setScalingV1(w *endpointV1, e Endpoint, _ bool) error {
	switch e.Scaling.Type {
	case "":
		return nil
	case "QUEUE_DELAY":
		if e.Scaling.QueueDelay != math.Trunc(e.Scaling.QueueDelay) {
			return inexpressible("scaling.queueDelay", fmt.Sprintf("%v: it has whole seconds", e.Scaling.QueueDelay))
		}
		w.ScalerValue = new(int64(e.Scaling.QueueDelay))
	default:
		w.ScalerValue = &e.Scaling.RequestCount
	}
	w.ScalerType = &e.Scaling.Type
	return nil
}

func setFlashBootV1(w *endpointV1, e Endpoint, _ bool) error {
	if e.FlashBoot == nil {
		return nil
	}
	switch *e.FlashBoot {
	case "OFF", "FLASHBOOT":
		w.FlashBoot = new(*e.FlashBoot == "FLASHBOOT")
		return nil
	}
	return inexpressible("flashboot", *e.FlashBoot)
}

func inexpressible(field, value string) error {
	return fmt.Errorf("management API v1 can't express %s %s: use API v2", field, value)
}

// endpointPatchV1 makes the body of an update. The link to the template makes
// its changes reach the endpoint; ApplyTemplate sends it again, for an endpoint
// that was made without a link.
func endpointPatchV1(have, want Endpoint) (patch, error) {
	want = aligned(have, want)
	after, err := newEndpointV1(want, true)
	if err != nil {
		return nil, err
	}
	before, err := newEndpointV1(have, true)
	if err != nil {
		before = endpointV1{} // what v1 can't express differs from whatever it can
	}
	p, err := changed(before, after)
	if err != nil {
		return nil, err
	}
	if want.ApplyTemplate && want.TemplateID != nil {
		if p["templateId"], err = json.Marshal(*want.TemplateID); err != nil {
			return nil, err
		}
	}
	return p, together(p, after, groupsV1)
}

func (w endpointV1) neutral() Endpoint {
	e := Endpoint{
		ID:             value(w.ID),
		Name:           value(w.Name),
		TemplateID:     w.TemplateID,
		GPU:            w.gpu(),
		CPU:            w.cpu(),
		Workers:        Workers{Min: value(w.WorkersMin), Max: value(w.WorkersMax), IdleTimeout: w.IdleTimeout},
		Scaling:        w.scaling(),
		DataCenterIDs:  chosenDataCenters(value(w.DataCenterIDs)),
		NetworkVolumes: value(w.NetworkVolumeIDs),
		Timeout:        value(w.ExecutionTimeoutMS),
		CreatedAt:      value(w.CreatedAt),
	}
	if len(w.Env) > 0 {
		e.Env = w.Env
	}
	if id := value(w.NetworkVolumeID); id != "" && len(e.NetworkVolumes) == 0 {
		e.NetworkVolumes = []string{id}
	}
	if w.FlashBoot != nil {
		e.FlashBoot = new("OFF")
		if *w.FlashBoot {
			*e.FlashBoot = "FLASHBOOT"
		}
	}
	return e
}

func (w endpointV1) gpu() *GPU {
	if value(w.ComputeType) == "CPU" {
		return nil
	}
	g := GPU{
		TypeIDs:             value(w.GPUTypeIDs),
		Count:               value(w.GPUCount),
		AllowedCUDAVersions: value(w.AllowedCUDAVersions),
		MinCUDAVersion:      value(w.MinCUDAVersion),
	}
	if len(g.TypeIDs) == 0 && g.Count == 0 && len(g.AllowedCUDAVersions) == 0 && g.MinCUDAVersion == "" {
		return nil
	}
	return &g
}

// instanceID is <flavour>-<vCPUs>-<GB of memory>, such as cpu3c-8-16.
var instanceID = regexp.MustCompile(`^(.+)-(\d+)-\d+$`)

// cpu is nil where an instance id is of another form.
func (w endpointV1) cpu() (cpu []CPU) {
	for _, id := range value(w.InstanceIDs) {
		m := instanceID.FindStringSubmatch(id)
		if m == nil {
			return nil
		}
		count, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return nil
		}
		cpu = append(cpu, CPU{ID: m[1], VCPUCount: count})
	}
	return cpu
}

func (w endpointV1) scaling() Scaling {
	s := Scaling{Type: value(w.ScalerType)}
	switch s.Type {
	case "QUEUE_DELAY":
		s.QueueDelay = float64(value(w.ScalerValue))
	case "REQUEST_COUNT":
		s.RequestCount = value(w.ScalerValue)
	}
	return s
}

// chosenDataCenters is nil for the full list.
func chosenDataCenters(ids []string) []string {
	if len(ids) == 0 || AllDataCenters(ids) {
		return nil
	}
	return ids
}

// AllDataCenters tells whether these are all data centers, which API v1 does
// not tell from a choice of none.
func AllDataCenters(ids []string) bool { return slices.Equal(sortedSet(ids), allDataCentersV1) }
