package mgmt

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// apply changes e, which is either a new endpoint with the defaults or an existing one.
func (b endpointBodyV1) apply(tx *store.Tx, e *store.Endpoint) error {
	copyFields(e, b)
	if err := b.link(tx, e); err != nil {
		return err
	}
	if e.ID != "" && len(e.CPU) > 0 || e.ID == "" && b.onCPU() {
		b.applyCPU(tx.Catalog(), e)
	} else {
		b.applyGPU(tx.Catalog(), e)
	}
	b.applyLocations(tx.Catalog(), e)
	if b.ScalerType != nil && *b.ScalerType != e.Scaling.Type {
		e.Scaling = store.Scaling{Type: *b.ScalerType, Value: float64(ceil(e.Scaling.Value))} // version 2 has fractions of seconds
	}
	if b.ScalerValue != nil && *b.ScalerValue != ceil(e.Scaling.Value) {
		e.Scaling.Value = float64(*b.ScalerValue)
	}
	if b.FlashBoot != nil && *b.FlashBoot != (e.FlashBoot != "OFF") {
		e.FlashBoot = map[bool]string{false: "OFF", true: "FLASHBOOT"}[*b.FlashBoot]
	}
	return nil
}

// readTemplateV1 reads the template that a body names. An unknown one is 400, not 404: the path is valid.
func readTemplateV1(tx *store.Tx, id string) (t store.Template, err error) {
	if t, err = tx.Template(id); errors.Is(err, store.ErrNotFound) {
		err = store.Refusal(fmt.Sprintf("template %q does not exist", id))
	}
	return t, err
}

// link makes the endpoint follow the template. An endpoint without a name gets the template's.
func (b endpointBodyV1) link(tx *store.Tx, e *store.Endpoint) error {
	if b.TemplateID == nil {
		return nil
	}
	t, err := readTemplateV1(tx, *b.TemplateID)
	if err != nil {
		return err
	}
	e.Link(t)
	if e.Name == "" {
		const maxName = 191 // characters of a name
		name := []rune(t.Name)
		e.Name = string(name[:min(len(name), maxName)])
	}
	return nil
}

// applyCPU ignores the GPU members, as the document of version 1 says. An endpoint without a flavor may get any.
func (b endpointBodyV1) applyCPU(cat *catalog.Catalog, e *store.Endpoint) {
	if b.CPUFlavorIDs == nil && b.VCPUCount == nil && len(e.CPU) > 0 {
		return // version 2 may have set a count for each flavor
	}
	count, flavors := defaultVCPUCount, convertAll(e.CPU, func(c store.CPU) string { return c.FlavorID })
	if len(e.CPU) > 0 {
		count = e.CPU[0].VCPUCount
	}
	b.setCPUs(cat, &count, &flavors)
	e.CPU = []store.CPU{} // rejected if it stays empty
	for _, id := range flavors {
		if cpu := (store.CPU{FlavorID: id, VCPUCount: count}); !slices.Contains(e.CPU, cpu) {
			e.CPU = append(e.CPU, cpu)
		}
	}
}

// setCPUs sets the vCPUs and the flavors. If neither the body nor the object names a flavor, it sets all that can have so many vCPUs.
func (b computeBodyV1) setCPUs(cat *catalog.Catalog, vcpus *int64, flavors *[]string) {
	setIfPresent(vcpus, b.VCPUCount)
	setIfPresent(flavors, b.CPUFlavorIDs)
	if len(*flavors) == 0 {
		fitting := slices.DeleteFunc(slices.Clone(cat.CPUs), func(f catalog.CPU) bool { return *vcpus < f.MinVCPU || *vcpus > f.MaxVCPU })
		*flavors = convertAll(fitting, func(f catalog.CPU) string { return f.ID })
	}
}

// applyGPU ignores the CPU members. Without GPU members, the endpoint may get any compute.
// Members with the values that version 1 shows change nothing.
func (b endpointBodyV1) applyGPU(cat *catalog.Catalog, e *store.Endpoint) {
	if e.GPU == nil {
		if !b.wantsGPU(e.ID == "") {
			return
		}
		e.GPU = &store.GPU{Count: defaultGPUCount}
	}
	if b.GPUTypeIDs != nil && !slices.Equal(*b.GPUTypeIDs, gpuTypes(cat, *e.GPU)) {
		e.GPU.Pools, e.GPU.ExcludedTypes, e.GPU.TypeIDs = nil, nil, *b.GPUTypeIDs
	}
	setIfPresent(&e.GPU.Count, b.GPUCount)
	setIfPresent(&e.GPU.AllowedCUDAVersions, b.AllowedCUDAVersions)
	if b.MinCUDAVersion.Set {
		e.GPU.MinCUDAVersion = b.MinCUDAVersion.Value
	}
}

func (b endpointBodyV1) wantsGPU(isNew bool) bool {
	nonEmpty := func(l *[]string) bool { return l != nil && len(*l) > 0 }
	setsCount := b.GPUCount != nil && (isNew || *b.GPUCount != defaultGPUCount)
	return b.ComputeType != nil || setsCount || nonEmpty(b.GPUTypeIDs) || nonEmpty(b.AllowedCUDAVersions) || b.MinCUDAVersion.Value != ""
}

// applyLocations sets data centers and network volumes. A list of all data centers means any;
// networkVolumeId is the first volume.
func (b endpointBodyV1) applyLocations(cat *catalog.Catalog, e *store.Endpoint) {
	if b.DataCenterIDs != nil && sameElements(e.DataCenterIDs, allDataCenters(cat)) {
		e.DataCenterIDs = nil
	}
	if b.NetworkVolumeID.Set || b.NetworkVolumeIDs != nil {
		e.NetworkVolumes = nil
		setIfPresent(&e.NetworkVolumes, b.NetworkVolumeIDs)
	}
	if primary := b.NetworkVolumeID.Value; primary != "" {
		others := slices.DeleteFunc(slices.Clone(e.NetworkVolumes), func(id string) bool { return id == primary })
		e.NetworkVolumes = append([]string{primary}, others...)
	}
}

func allDataCenters(cat *catalog.Catalog) []string {
	return convertAll(cat.DataCenters, func(d catalog.DataCenter) string { return d.ID })
}

func (c *call) newEndpointV1(e store.Endpoint) endpointV1 {
	cat := c.Catalog.Current()
	w := endpointV1{ScalerType: e.Scaling.Type, ScalerValue: ceil(e.Scaling.Value)} // version 2 has fractions of seconds
	copyFields(&w, e)
	if len(e.DataCenterIDs) == 0 {
		w.DataCenterIDs = allDataCenters(cat)
	}
	if len(e.NetworkVolumes) > 0 {
		w.NetworkVolumeID = e.NetworkVolumes[0]
	}
	if len(e.CPU) > 0 {
		w.ComputeType = "CPU"
		for _, c := range e.CPU {
			w.InstanceIDs = append(w.InstanceIDs, fmt.Sprintf("%s-%d-%d", c.FlavorID, c.VCPUCount, cat.CPUMemory(c.FlavorID, c.VCPUCount)))
		}
		return w
	}
	w.ComputeType = "GPU" // version 1 has no type for an endpoint that may get any compute
	gpu := *cmp.Or(e.GPU, &store.GPU{Count: defaultGPUCount})
	types, versions := gpuTypes(cat, gpu), nonNilList(gpu.AllowedCUDAVersions)
	w.GPUTypeIDs, w.AllowedCUDAVersions = &types, &versions
	w.GPUCount, w.MinCUDAVersion = gpu.Count, gpu.MinCUDAVersion
	return w
}

// gpuTypes returns the selection in the form of version 1.
func gpuTypes(cat *catalog.Catalog, g store.GPU) []string {
	if len(g.Pools) > 0 {
		return cat.TypesIn(g.Pools, g.ExcludedTypes)
	}
	return nonNilList(g.TypeIDs)
}

// timestamp formats a time as RFC 3339 in UTC with milliseconds.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

var endpointIncludes = flagNames{"includeTemplate", "includeWorkers"}

// includedTemplate reads the template that an answer includes. It returns nil if the object has
// no template, or if the template was deleted meanwhile.
func (c *call) includedTemplate(id string) (*templateV1, error) {
	t, err := store.Get[store.Template](c.ctx(), c.Store, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return new(newTemplateV1(t)), err
}

// showEndpointsV1 shows endpoints, with their templates and workers if the call requests them.
func (c *call) showEndpointsV1(endpoints []store.Endpoint, flags map[string]bool) (out []endpointV1, err error) {
	var workers []podV1
	if flags["includeWorkers"] {
		workers, err = c.workerPodsV1()
	}
	out = make([]endpointV1, len(endpoints))
	for i, e := range endpoints {
		out[i] = c.newEndpointV1(e)
		if flags["includeTemplate"] && err == nil {
			out[i].Template, err = c.includedTemplate(e.TemplateID)
		}
		if flags["includeWorkers"] {
			ofOthers := func(w podV1) bool { return w.EndpointID != e.ID }
			out[i].Workers = new(slices.DeleteFunc(append([]podV1{}, workers...), ofOthers))
		}
	}
	return out, err
}

func (c *call) listEndpointsV1(flags map[string]bool) ([]endpointV1, error) {
	all, err := c.Store.Endpoints(c.ctx())
	if err != nil {
		return nil, err
	}
	return c.showEndpointsV1(all, flags)
}

func (c *call) getEndpointV1(flags map[string]bool) (w endpointV1, err error) {
	e, err := c.Store.Endpoint(c.ctx(), c.id)
	if err != nil {
		return w, err
	}
	shown, err := c.showEndpointsV1([]store.Endpoint{e}, flags)
	return shown[0], err
}
