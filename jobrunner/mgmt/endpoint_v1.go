package mgmt

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// endpointBodyV1 is the body of a create or an update.
type endpointBodyV1 struct {
	Name                *string   `json:"name" rule:"min=1 max=191"`
	TemplateID          *string   `json:"templateId" rule:"must=create min=1"`
	ComputeType         *string   `json:"computeType" rule:"only=create oneof=GPU,CPU"`
	GPUTypeIDs          *[]string `json:"gpuTypeIds" rule:"form=id"`
	GPUCount            *int64    `json:"gpuCount" rule:"min=1"`
	AllowedCUDAVersions *[]string `json:"allowedCudaVersions" rule:"form=cuda"`
	MinCUDAVersion      reference `json:"minCudaVersion" rule:"form=cuda"`
	CPUFlavorIDs        *[]string `json:"cpuFlavorIds" rule:"form=id"`
	VCPUCount           *int64    `json:"vcpuCount" rule:"min=2 power2"`
	DataCenterIDs       *[]string `json:"dataCenterIds" rule:"form=id"`
	NetworkVolumeID     reference `json:"networkVolumeId"`
	NetworkVolumeIDs    *[]string `json:"networkVolumeIds"`
	WorkersMin          *int64    `json:"workersMin" rule:"min=0"`
	WorkersMax          *int64    `json:"workersMax" rule:"min=0"`
	IdleTimeout         *int64    `json:"idleTimeout" rule:"min=1 max=3600"`
	ScalerType          *string   `json:"scalerType" rule:"oneof=QUEUE_DELAY,REQUEST_COUNT"`
	ScalerValue         *int64    `json:"scalerValue" rule:"min=1"`
	ExecutionTimeoutMS  *int64    `json:"executionTimeoutMs" rule:"zero min=5000 max=604800000"`
	FlashBoot           *bool     `json:"flashboot"`
}

// apply changes e, a new endpoint with the defaults or one that exists.
func (b endpointBodyV1) apply(tx *store.Tx, e *store.Endpoint) error {
	if err := b.link(tx, e); err != nil {
		return err
	}
	set(&e.Name, b.Name)
	if e.ID != "" && len(e.CPU) > 0 || e.ID == "" && b.ComputeType != nil && *b.ComputeType == "CPU" {
		b.applyCPU(e)
	} else {
		b.applyGPU(e)
	}
	b.applyPlaces(e)
	set(&e.WorkersMin, b.WorkersMin)
	set(&e.WorkersMax, b.WorkersMax)
	set(&e.IdleTimeout, b.IdleTimeout)
	set(&e.Scaling.Type, b.ScalerType)
	if b.ScalerValue != nil {
		e.Scaling.Value = float64(*b.ScalerValue)
	}
	set(&e.Timeout, b.ExecutionTimeoutMS)
	if b.FlashBoot != nil && *b.FlashBoot != (e.FlashBoot != "OFF") {
		e.FlashBoot = map[bool]string{false: "OFF", true: "FLASHBOOT"}[*b.FlashBoot]
	}
	return nil
}

// link makes the endpoint follow the template. A new endpoint without a name
// has the template's.
func (b endpointBodyV1) link(tx *store.Tx, e *store.Endpoint) error {
	if b.TemplateID == nil {
		return nil
	}
	t, err := tx.Template(*b.TemplateID)
	if errors.Is(err, store.ErrNotFound) { // the path is right, the body is not
		return store.Refusal(fmt.Sprintf("template %q does not exist", *b.TemplateID))
	}
	if err != nil {
		return err
	}
	e.Link(t)
	if e.Name == "" {
		const most = 191 // characters of a name
		name := []rune(t.Name)
		e.Name = string(name[:min(len(name), most)])
	}
	return nil
}

// applyCPU ignores what is said of GPUs, as the version's document has it. An
// endpoint that names no flavour may have any.
func (b endpointBodyV1) applyCPU(e *store.Endpoint) {
	flavors := each(e.CPU, func(c store.CPU) string { return c.FlavorID })
	if b.CPUFlavorIDs != nil {
		flavors = *b.CPUFlavorIDs
	}
	if len(flavors) == 0 {
		flavors = each(catalog.CPUs, func(c catalog.CPU) string { return c.ID })
	}
	switch {
	case b.CPUFlavorIDs == nil && b.VCPUCount == nil && len(e.CPU) > 0:
		return // two flavours may differ in their counts where version 2 said so
	case b.VCPUCount == nil && len(e.CPU) > 0:
		b.VCPUCount = &e.CPU[0].VCPUCount
	case b.VCPUCount == nil:
		b.VCPUCount = new(int64(defaultVCPUCount))
	}
	cpu := make([]store.CPU, 0, len(flavors))
	seen := map[string]bool{}
	for _, id := range flavors {
		if !seen[id] {
			cpu = append(cpu, store.CPU{FlavorID: id, VCPUCount: *b.VCPUCount})
		}
		seen[id] = true
	}
	e.CPU = cpu
}

// applyGPU ignores what is said of CPUs. An endpoint of which nothing is said
// may have any compute.
func (b endpointBodyV1) applyGPU(e *store.Endpoint) {
	if e.GPU == nil {
		if !b.wantsGPU() {
			return
		}
		e.GPU = &store.GPU{Count: defaultGPUCount}
	}
	chooseTypes(e.GPU, b.GPUTypeIDs)
	set(&e.GPU.Count, b.GPUCount)
	set(&e.GPU.AllowedCUDAVersions, b.AllowedCUDAVersions)
	if b.MinCUDAVersion.Set {
		e.GPU.MinCUDAVersion = b.MinCUDAVersion.Value
	}
}

func (b endpointBodyV1) wantsGPU() bool {
	says := func(l *[]string) bool { return l != nil && len(*l) > 0 }
	return b.ComputeType != nil || b.GPUCount != nil || says(b.GPUTypeIDs) || says(b.AllowedCUDAVersions) || b.MinCUDAVersion.Value != ""
}

// applyPlaces: all data centers that are known are any, and the one volume is
// the first of many.
func (b endpointBodyV1) applyPlaces(e *store.Endpoint) {
	if b.DataCenterIDs != nil {
		e.DataCenterIDs = *b.DataCenterIDs
		if sameElements(e.DataCenterIDs, allDataCenters()) {
			e.DataCenterIDs = nil
		}
	}
	if b.NetworkVolumeID.Set {
		e.NetworkVolumes = nil
		if b.NetworkVolumeID.Value != "" {
			e.NetworkVolumes = []string{b.NetworkVolumeID.Value}
		}
	}
	if b.NetworkVolumeIDs != nil {
		e.NetworkVolumes = *b.NetworkVolumeIDs
		if first := b.NetworkVolumeID.Value; first != "" {
			others := slices.DeleteFunc(slices.Clone(e.NetworkVolumes), func(id string) bool { return id == first })
			e.NetworkVolumes = append([]string{first}, others...)
		}
	}
}

func allDataCenters() []string {
	return each(catalog.DataCenters, func(d catalog.DataCenter) string { return d.ID })
}

// endpointV1 is an endpoint in an answer. Members that do not apply are left
// out, as are the user and the workers, of whom nothing is known here.
type endpointV1 struct {
	ID                  string            `json:"id"`
	Name                string            `json:"name"`
	TemplateID          string            `json:"templateId,omitempty"`
	Template            *templateV1       `json:"template,omitempty"`
	ComputeType         string            `json:"computeType"`
	GPUTypeIDs          *[]string         `json:"gpuTypeIds,omitempty"`
	GPUCount            int64             `json:"gpuCount,omitempty"`
	AllowedCUDAVersions *[]string         `json:"allowedCudaVersions,omitempty"`
	MinCUDAVersion      string            `json:"minCudaVersion,omitempty"`
	InstanceIDs         []string          `json:"instanceIds,omitempty"`
	DataCenterIDs       []string          `json:"dataCenterIds" rule:"form=id"`
	NetworkVolumeID     string            `json:"networkVolumeId,omitempty"`
	NetworkVolumeIDs    []string          `json:"networkVolumeIds"`
	WorkersMin          int64             `json:"workersMin"`
	WorkersMax          int64             `json:"workersMax"`
	IdleTimeout         int64             `json:"idleTimeout"`
	ScalerType          string            `json:"scalerType"`
	ScalerValue         int64             `json:"scalerValue"`
	ExecutionTimeoutMS  int64             `json:"executionTimeoutMs"`
	Env                 map[string]string `json:"env"`
	CreatedAt           string            `json:"createdAt"`
	Version             int64             `json:"version"`
}

func newEndpointV1(e store.Endpoint) endpointV1 {
	w := endpointV1{
		ID: e.ID, Name: e.Name, TemplateID: e.TemplateID,
		DataCenterIDs: e.DataCenterIDs, NetworkVolumeIDs: list(e.NetworkVolumes),
		WorkersMin: e.WorkersMin, WorkersMax: e.WorkersMax, IdleTimeout: e.IdleTimeout,
		ScalerType: e.Scaling.Type, ScalerValue: ceil(e.Scaling.Value), // version 2 has fractions of seconds
		ExecutionTimeoutMS: e.Timeout, Env: dictionary(e.Env), CreatedAt: timestamp(e.Created), Version: e.Version,
	}
	if len(e.DataCenterIDs) == 0 {
		w.DataCenterIDs = allDataCenters()
	}
	if len(e.NetworkVolumes) > 0 {
		w.NetworkVolumeID = e.NetworkVolumes[0]
	}
	if len(e.CPU) > 0 {
		w.ComputeType = "CPU"
		for _, c := range e.CPU {
			w.InstanceIDs = append(w.InstanceIDs, fmt.Sprintf("%s-%d-%d", c.FlavorID, c.VCPUCount, catalog.CPUMemory(c.FlavorID, c.VCPUCount)))
		}
		return w
	}
	w.ComputeType = "GPU" // any compute too: version 1 has no word for it
	gpu := store.GPU{Count: defaultGPUCount}
	if e.GPU != nil {
		gpu = *e.GPU
	}
	types, versions := typesOf(gpu), list(gpu.AllowedCUDAVersions)
	w.GPUTypeIDs, w.AllowedCUDAVersions = &types, &versions
	w.GPUCount, w.MinCUDAVersion = gpu.Count, gpu.MinCUDAVersion
	return w
}

// timestamp is RFC 3339 in UTC with milliseconds.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// withTemplates puts the linked templates into answers, where the call asks
// for them.
func (s *server) withTemplates(c *call, out []endpointV1) ([]endpointV1, error) {
	on, err := includeFlags(c, "includeTemplate", "includeWorkers")
	if err != nil || !on["includeTemplate"] {
		return out, err
	}
	for i, e := range out {
		if e.TemplateID == "" {
			continue
		}
		t, err := s.store.Template(c.ctx(), e.TemplateID)
		if errors.Is(err, store.ErrNotFound) {
			continue // both were deleted while this answer was made
		}
		if err != nil {
			return nil, err
		}
		template := newTemplateV1(t)
		out[i].Template = &template
	}
	return out, nil
}

func (s *server) listEndpointsV1(c *call) (any, error) {
	all, err := s.store.Endpoints(c.ctx())
	if err != nil {
		return nil, err
	}
	return s.withTemplates(c, each(all, newEndpointV1))
}

func (s *server) getEndpointV1(c *call) (any, error) {
	e, err := s.store.Endpoint(c.ctx(), c.id)
	if err != nil {
		return nil, err
	}
	out, err := s.withTemplates(c, []endpointV1{newEndpointV1(e)})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func createEndpointV1(s *server, c *call, body endpointBodyV1) (store.Endpoint, error) {
	return s.store.CreateEndpoint(c.ctx(), func(tx *store.Tx) (store.Endpoint, error) {
		e := endpointDefaultsV1()
		return e, body.apply(tx, &e)
	})
}

func updateEndpointV1(s *server, c *call, body endpointBodyV1) (store.Endpoint, error) {
	return s.store.UpdateEndpoint(c.ctx(), c.id, body.apply)
}
