package api

// endpoints returns the part of the collection that both versions share.
func endpoints(d *deployment, cache *listCache) *restCollection[Endpoint] {
	return &restCollection[Endpoint]{
		deployment: d, cache: cache, kind: "endpoint",
		id:        func(e Endpoint) string { return e.ID },
		name:      func(e Endpoint) string { return e.Name },
		sameFixed: sameFixedOfEndpoint,
		normalize: normalizeEndpoints,
	}
}

// Environment returns the container's environment, as far as the version returns it.
func (e Endpoint) Environment() map[string]string {
	if e.Container == nil {
		return nil
	}
	return e.Container.Env
}

func sameFixedOfEndpoint(got, want Endpoint) bool {
	return (want.Type == "" || got.Type == "" || got.Type == want.Type) &&
		(got.TemplateID == nil || agrees(got.TemplateID, want.TemplateID)) &&
		(got.CPU == nil || len(want.CPU) > 0) &&
		(got.GPU == nil || want.GPU != nil || acceptsAnyGPU(*got.GPU))
}

// acceptsAnyGPU reports whether an answer describes an endpoint that may run on any GPU.
func acceptsAnyGPU(got GPU) bool {
	return len(got.Pools)+len(got.TypeIDs) == 0 && got.Count <= 1
}

// normalizeEndpoints removes the container if a template sets it, because the copy doesn't
// contain the template's id.
func normalizeEndpoints(got, want Endpoint) (Endpoint, Endpoint) {
	want.ApplyTemplate = false
	if want.TemplateID != nil || got.Container == nil {
		got.TemplateID, got.Container = want.TemplateID, want.Container
	}
	if got.CPU == nil {
		got.CPU = want.CPU
	}
	if got.FlashBoot == nil {
		got.FlashBoot = want.FlashBoot
	}
	if got.Workers.IdleTimeout == nil {
		got.Workers.IdleTimeout = want.Workers.IdleTimeout
	}
	if got.GPU != nil && want.GPU != nil {
		gpu := *got.GPU
		gpu.TypeIDs = inOrderOf(want.GPU.TypeIDs, gpu.TypeIDs)
		got.GPU = &gpu
	}
	return got, want
}

// aligned returns want in the order of have wherever order has no meaning, so that a server
// that reorders causes no update. If want doesn't set CUDA versions, it keeps the template's.
func aligned(have, want Endpoint) Endpoint {
	want.DataCenterIDs = inOrderOf(have.DataCenterIDs, want.DataCenterIDs)
	want.NetworkVolumes = inOrderOf(have.NetworkVolumes, want.NetworkVolumes)
	if have.GPU != nil && want.GPU != nil {
		gpu := *want.GPU
		gpu.Pools = inOrderOf(have.GPU.Pools, gpu.Pools)
		gpu.ExcludedTypes = inOrderOf(have.GPU.ExcludedTypes, gpu.ExcludedTypes)
		if gpu.AllowedCUDAVersions == nil && want.TemplateID != nil && gpu.MinCUDAVersion == "" {
			gpu.AllowedCUDAVersions = have.GPU.AllowedCUDAVersions
		}
		gpu.AllowedCUDAVersions = inOrderOf(have.GPU.AllowedCUDAVersions, gpu.AllowedCUDAVersions)
		want.GPU = &gpu
	}
	if have.Container != nil && have.Container.Ports != nil && want.Container != nil && want.Container.Ports != nil {
		container := *want.Container
		container.Ports = new(inOrderOf(*have.Container.Ports, *container.Ports))
		want.Container = &container
	}
	return want
}
