package api

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

type Endpoint struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	Type string `json:"type,omitempty"` // QUEUE or LOAD_BALANCER; "" if the version doesn't return it (v1)

	// TemplateID is sent in both versions and returned only by v1: v2 copies the template's
	// settings at create or update and stores no link.
	TemplateID *string `json:"templateId,omitempty"`
	// Container is nil if the version can't return it (v1). In v2 its members are inlined in
	// the endpoint. If TemplateID is set, Container overrides the template, and an update sends
	// it with the template if the template changes or ApplyTemplate is set.
	Container *Container `json:"-"`
	// WorkerEnv is the only part of the container that v1 returns; nil for none. It is never
	// sent.
	WorkerEnv map[string]string `json:"-"`
	// ApplyTemplate makes an update send TemplateID and Container even if neither changes,
	// because the template's settings have changed since they were copied.
	ApplyTemplate bool `json:"-"`

	GPU            *GPU        `json:"gpu,omitempty"` // nil: not requested, or a CPU endpoint
	CPU            []CPU       `json:"cpu,omitempty"` // nil if the answer omits it
	Workers        Workers     `json:"workers"`
	Scaling        Scaling     `json:"scaling,omitzero"`
	DataCenterIDs  []string    `json:"dataCenterIds,omitempty"` // If it is nil, the scheduler chooses.
	NetworkVolumes []string    `json:"networkVolumes,omitempty"`
	Timeout        int64       `json:"timeout,omitempty"`    // milliseconds; 0 if never set
	FlashBoot      *string     `json:"flashboot,omitempty"`  // OFF, FLASHBOOT or, in v2 only, PRIORITY_FLASHBOOT
	CreatedAt      string      `json:"createdAt,omitempty"`  // RFC 3339
	RequestURLs    RequestURLs `json:"requestUrls,omitzero"` // empty if the version returns none
}

// GPU is the GPU selection of an endpoint. v1 uses TypeIDs in order of priority; v2 uses Pools
// minus ExcludedTypes.
//
// In an update of an endpoint that follows a template, nil AllowedCUDAVersions keep the
// template's; an empty list clears them.
type GPU struct {
	Pools               []string `json:"pools,omitempty"`
	ExcludedTypes       []string `json:"excludedTypes,omitempty"`
	TypeIDs             []string `json:"-"`
	Count               int64    `json:"count,omitempty"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"`
	MinCUDAVersion      string   `json:"minCudaVersion,omitempty"`
}

// CPU is a CPU configuration that a worker may get.
type CPU struct {
	ID        string `json:"id"`
	VCPUCount int64  `json:"vcpuCount"`
}

// Workers limits the autoscaler. IdleTimeout is nil if it doesn't apply.
type Workers struct {
	Min         int64  `json:"min"`
	Max         int64  `json:"max"`
	IdleTimeout *int64 `json:"idleTimeout,omitempty"` // seconds
}

// Scaling is the autoscaling signal: QUEUE_DELAY with QueueDelay in seconds,
// or REQUEST_COUNT with RequestCount.
type Scaling struct {
	Type         string  `json:"type"`
	QueueDelay   float64 `json:"queueDelay,omitempty"`
	RequestCount int64   `json:"requestCount,omitempty"`
}

// RequestURLs are the URLs of an endpoint's job API. A load-balancing endpoint has only Base
// and Health.
type RequestURLs struct {
	Base       string `json:"base,omitempty"`
	Run        string `json:"run,omitempty"`
	RunSync    string `json:"runSync,omitempty"`
	Status     string `json:"status,omitempty"`
	Stream     string `json:"stream,omitempty"`
	Cancel     string `json:"cancel,omitempty"`
	Retry      string `json:"retry,omitempty"`
	PurgeQueue string `json:"purgeQueue,omitempty"`
	Health     string `json:"health,omitempty"`
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
	NetworkVolumeID     string   `json:"networkVolumeId,omitempty"` // only in answers; requests have NetworkVolumeIDs
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

// newEndpointV1 makes the updatable part of a request body.
func newEndpointV1(e Endpoint) (w endpointV1, err error) {
	w = endpointV1{
		Name:               e.Name,
		TemplateID:         e.TemplateID,
		DataCenterIDs:      e.DataCenterIDs,
		NetworkVolumeIDs:   e.NetworkVolumes,
		ExecutionTimeoutMS: e.Timeout,
		IdleTimeout:        e.Workers.IdleTimeout,
		WorkersMin:         e.Workers.Min,
		WorkersMax:         e.Workers.Max,
		ScalerType:         e.Scaling.Type,
	}
	if e.Type != "" && e.Type != "QUEUE" {
		return w, inexpressible("type", e.Type)
	}
	if gpu := e.GPU; gpu != nil {
		w.GPUTypeIDs, w.GPUCount = gpu.TypeIDs, gpu.Count
		w.AllowedCUDAVersions, w.MinCUDAVersion = gpu.AllowedCUDAVersions, gpu.MinCUDAVersion
	}
	for _, cpu := range e.CPU { // v1 has one count for all flavors
		if cpu.VCPUCount != e.CPU[0].VCPUCount {
			return w, inexpressible("cpu", "with different vCPU counts")
		}
		w.CPUFlavorIDs, w.VCPUCount = append(w.CPUFlavorIDs, cpu.ID), &cpu.VCPUCount
	}
	switch s := e.Scaling; {
	case s.Type == "QUEUE_DELAY" && s.QueueDelay != math.Trunc(s.QueueDelay):
		return w, inexpressible("scaling.queueDelay", fmt.Sprintf("%v: v1 takes whole seconds", s.QueueDelay))
	case s.Type == "QUEUE_DELAY":
		w.ScalerValue = new(int64(s.QueueDelay))
	case s.Type != "":
		w.ScalerValue = &s.RequestCount
	}
	if f := e.FlashBoot; f != nil {
		if w.FlashBoot = new(*f == "FLASHBOOT"); !*w.FlashBoot && *f != "OFF" {
			return w, inexpressible("flashboot", *f)
		}
	}
	return w, nil
}

func inexpressible(field, value string) error {
	return fmt.Errorf("management API v1 can't express %s %s: set api_version or GPUCLOUD_API_VERSION to v2", field, value)
}

func (w endpointV1) neutral() Endpoint {
	e := Endpoint{
		ID:             w.ID,
		Name:           w.Name,
		TemplateID:     w.TemplateID,
		GPU:            w.gpu(),
		CPU:            w.cpu(),
		Workers:        Workers{Min: w.WorkersMin, Max: w.WorkersMax, IdleTimeout: w.IdleTimeout},
		Scaling:        Scaling{Type: w.ScalerType},
		DataCenterIDs:  w.DataCenterIDs,
		NetworkVolumes: w.NetworkVolumeIDs,
		Timeout:        w.ExecutionTimeoutMS,
		CreatedAt:      w.CreatedAt,
	}
	if len(w.DataCenterIDs) == 0 || AllDataCenters(w.DataCenterIDs) {
		e.DataCenterIDs = nil // no data center was chosen
	}
	switch w.ScalerType {
	case "QUEUE_DELAY":
		e.Scaling.QueueDelay = float64(deref(w.ScalerValue))
	case "REQUEST_COUNT":
		e.Scaling.RequestCount = deref(w.ScalerValue)
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
	g := GPU{TypeIDs: w.GPUTypeIDs, Count: w.GPUCount, AllowedCUDAVersions: w.AllowedCUDAVersions, MinCUDAVersion: w.MinCUDAVersion}
	if len(g.TypeIDs) == 0 && g.Count == 0 && len(g.AllowedCUDAVersions) == 0 && g.MinCUDAVersion == "" {
		return nil
	}
	return &g
}

// instanceID is <flavor>-<vCPUs>-<GB of memory>, such as cpu3c-8-16.
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

var allDataCenters = slices.Sorted(slices.Values(contract.DataCenterIDs))

// AllDataCenters reports whether ids are all data centers. API v1 returns this list if none was chosen.
func AllDataCenters(ids []string) bool { return slices.Equal(sortedSet(ids), allDataCenters) }

// endpointV2 inlines the container's members.
type endpointV2 struct {
	Endpoint
	Container
}

// newEndpointV2 makes the updatable part of a request body, without the template and the container.
func newEndpointV2(e Endpoint) Endpoint {
	e.ID, e.Type, e.TemplateID, e.CreatedAt, e.RequestURLs = "", "", nil, "", RequestURLs{}
	e.Scaling = e.Scaling.ofType()
	return e
}

// ofType returns only the value that belongs to the type.
func (s Scaling) ofType() Scaling {
	switch s.Type {
	case "":
		return Scaling{}
	case "REQUEST_COUNT":
		s.QueueDelay = 0
	default:
		s.RequestCount = 0
	}
	return s
}

func (w endpointV2) neutral() Endpoint {
	e := w.Endpoint
	e.Container = newContainer(w.Container)
	return e
}
