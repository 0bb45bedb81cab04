package api

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

func endpointsV1(d *deployment, cache *listCache) Collection[Endpoint] {
	r := endpoints(d, cache)
	r.path, r.unknownIDIs400 = "/v1/endpoints", true
	r.required = []string{"name", "templateId", "workersMin", "workersMax", "scalerType", "scalerValue"}
	r.decode = decodeAs(endpointV1.neutral)
	r.create = func(want Endpoint) (any, error) {
		w, err := newEndpointV1(want)
		switch { // fixed at create
		case len(want.CPU) > 0:
			w.ComputeType = "CPU"
		case want.GPU != nil:
			w.ComputeType = "GPU"
		}
		return w, err
	}
	r.update = endpointPatchV1
	return r
}

type endpointV1 struct {
	ID                  string   `json:"id,omitempty"`
	Name                string   `json:"name,omitempty"`
	TemplateID          *string  `json:"templateId,omitempty"`
	ComputeType         string   `json:"computeType,omitempty"` // GPU or CPU
	GPUTypeIDs          []string `json:"gpuTypeIds,omitempty"`  // in order of priority
	GPUCount            int64    `json:"gpuCount,omitempty"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"`
	MinCUDAVersion      string   `json:"minCudaVersion,omitempty"`
	CPUFlavorIDs        []string `json:"cpuFlavorIds,omitempty"` // only in requests
	VCPUCount           *int64   `json:"vcpuCount,omitempty"`    // only in requests
	InstanceIDs         []string `json:"instanceIds,omitempty"`  // only in answers: flavor and vCPUs together
	DataCenterIDs       []string `json:"dataCenterIds,omitempty"`
	NetworkVolumeID     string   `json:"networkVolumeId,omitempty"` // only in answers
	NetworkVolumeIDs    []string `json:"networkVolumeIds,omitempty"`
	ExecutionTimeoutMS  int64    `json:"executionTimeoutMs,omitempty"`
	FlashBoot           *bool    `json:"flashboot,omitempty"`   // some deployments don't return it
	IdleTimeout         *int64   `json:"idleTimeout,omitempty"` // seconds
	ScalerType          string   `json:"scalerType,omitempty"`
	ScalerValue         *int64   `json:"scalerValue,omitempty"` // seconds or requests
	WorkersMin          int64    `json:"workersMin"`
	WorkersMax          int64    `json:"workersMax"`
	CreatedAt           string   `json:"createdAt,omitempty"`

	Env map[string]string `json:"env,omitempty"` // only in answers
}

// groupsV1 are members of an endpoint that are sent together (completeGroups).
var groupsV1 = [][]string{
	{"cpuFlavorIds", "vcpuCount"},
	{"scalerType", "scalerValue"},
	{"workersMin", "workersMax", "idleTimeout"},
}

// allDataCentersV1 is the answer of API v1 if no data center was chosen.
var allDataCentersV1 = slices.Sorted(slices.Values(contract.DataCenterIDs))

// newEndpointV1 makes the updatable part of a request body.
func newEndpointV1(e Endpoint) (endpointV1, error) {
	w := endpointV1{
		Name:               e.Name,
		TemplateID:         e.TemplateID,
		DataCenterIDs:      e.DataCenterIDs,
		NetworkVolumeIDs:   e.NetworkVolumes,
		ExecutionTimeoutMS: e.Timeout,
		IdleTimeout:        e.Workers.IdleTimeout,
		WorkersMin:         e.Workers.Min,
		WorkersMax:         e.Workers.Max,
	}
	if e.Type != "" && e.Type != "QUEUE" {
		return w, inexpressible("type", e.Type)
	}
	if gpu := e.GPU; gpu != nil {
		w.GPUTypeIDs, w.GPUCount = gpu.TypeIDs, gpu.Count
		w.AllowedCUDAVersions, w.MinCUDAVersion = gpu.AllowedCUDAVersions, gpu.MinCUDAVersion
	}
	for _, set := range []func(*endpointV1, Endpoint) error{setCPUV1, setScalingV1, setFlashBootV1} {
		if err := set(&w, e); err != nil {
			return w, err
		}
	}
	return w, nil
}

// setCPUV1 requires one vCPU count: v1 has a list of flavors and one count for all of them.
func setCPUV1(w *endpointV1, e Endpoint) error {
	for _, cpu := range e.CPU {
		if cpu.VCPUCount != e.CPU[0].VCPUCount {
			return inexpressible("cpu", "with different vCPU counts")
		}
		w.CPUFlavorIDs, w.VCPUCount = append(w.CPUFlavorIDs, cpu.ID), &cpu.VCPUCount
	}
	return nil
}

func setScalingV1(w *endpointV1, e Endpoint) error {
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
	w.ScalerType = e.Scaling.Type
	return nil
}

func setFlashBootV1(w *endpointV1, e Endpoint) error {
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

// endpointPatchV1 makes the body of an update. The link to the template makes the template's
// changes reach the endpoint. ApplyTemplate sends the link again, for an endpoint that was
// created without it.
func endpointPatchV1(have, want Endpoint) (patch, error) {
	want = aligned(have, want)
	p, after, err := changedV1("endpoint", newEndpointV1, have, want)
	if err != nil {
		return nil, err
	}
	all, err := changedMembers(clearingValues(contract.V1, "endpoint"), nil, after)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"gpuTypeIds", "allowedCudaVersions", "minCudaVersion"} {
		switch {
		case want.GPU == nil: // the endpoint keeps its GPUs
			delete(p, name)
		case have.GPU == nil:
			p[name] = all[name]
		}
	}
	if want.ApplyTemplate && want.TemplateID != nil {
		if p["templateId"], err = json.Marshal(*want.TemplateID); err != nil {
			return nil, err
		}
	}
	return p, completeGroups(p, after, groupsV1)
}

func (w endpointV1) neutral() Endpoint {
	e := Endpoint{
		ID:             w.ID,
		Name:           w.Name,
		TemplateID:     w.TemplateID,
		GPU:            w.gpu(),
		CPU:            w.cpu(),
		Workers:        Workers{Min: w.WorkersMin, Max: w.WorkersMax, IdleTimeout: w.IdleTimeout},
		Scaling:        w.scaling(),
		DataCenterIDs:  chosenDataCenters(w.DataCenterIDs),
		NetworkVolumes: w.NetworkVolumeIDs,
		Timeout:        w.ExecutionTimeoutMS,
		CreatedAt:      w.CreatedAt,
	}
	if len(w.Env) > 0 {
		e.WorkerEnv = w.Env
	}
	if w.NetworkVolumeID != "" && len(e.NetworkVolumes) == 0 {
		e.NetworkVolumes = []string{w.NetworkVolumeID}
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
	if w.ComputeType == "CPU" {
		return nil
	}
	g := GPU{
		TypeIDs:             w.GPUTypeIDs,
		Count:               w.GPUCount,
		AllowedCUDAVersions: w.AllowedCUDAVersions,
		MinCUDAVersion:      w.MinCUDAVersion,
	}
	if len(g.TypeIDs) == 0 && g.Count == 0 && len(g.AllowedCUDAVersions) == 0 && g.MinCUDAVersion == "" {
		return nil
	}
	return &g
}

// instanceID is <flavour>-<vCPUs>-<GB of memory>, such as cpu3c-8-16.
var instanceID = regexp.MustCompile(`^(.+)-(\d+)-\d+$`)

// cpu returns nil if an instance id has another form.
func (w endpointV1) cpu() (cpu []CPU) {
	for _, id := range w.InstanceIDs {
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
	s := Scaling{Type: w.ScalerType}
	switch s.Type {
	case "QUEUE_DELAY":
		s.QueueDelay = float64(deref(w.ScalerValue))
	case "REQUEST_COUNT":
		s.RequestCount = deref(w.ScalerValue)
	}
	return s
}

// chosenDataCenters returns nil for the full list.
func chosenDataCenters(ids []string) []string {
	if len(ids) == 0 || AllDataCenters(ids) {
		return nil
	}
	return ids
}

// AllDataCenters reports whether ids are all data centers. API v1 returns the same list if none
// was chosen.
func AllDataCenters(ids []string) bool { return slices.Equal(sortedSet(ids), allDataCentersV1) }
