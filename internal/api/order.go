package api

import "slices"

// aligned is want in the order of have wherever order means nothing: a server
// that reorders must not cause an update. It also keeps the CUDA versions that
// a template gave, where want leaves them open.
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

// inOrderOf is have where want has the same elements, else want.
func inOrderOf(have, want []string) []string {
	if len(have) == len(want) && slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))) {
		return have
	}
	return want
}
