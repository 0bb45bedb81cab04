package api

import (
	"cmp"
	"encoding/json"
	"maps"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// endpoints returns the part of the collection that both versions share.
func endpoints(d *deployment, cache *listCache) *Collection[Endpoint] {
	return &Collection[Endpoint]{
		deployment: d, cache: cache, kind: "endpoint",
		fixedMembersEqual: endpointFixedMembersEqual,
		normalize:         normalizeEndpoints,
	}
}

func endpointsV1(d *deployment, cache *listCache) *Collection[Endpoint] {
	r := endpoints(d, cache)
	r.path = "/v1/endpoints"
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

func endpointsV2(d *deployment, cache *listCache) *Collection[Endpoint] {
	r := endpoints(d, cache)
	r.path, r.member = "/v2/serverless", "endpoints"
	r.required = []string{"name", "type", "workers", "scaling", "dataCenterIds", "networkVolumes", "timeout", "flashboot"}
	r.decode = decodeAs(endpointV2.neutral)
	r.create = func(want Endpoint) (any, error) {
		w := newEndpointV2(want)
		w.Type, w.TemplateID = want.Type, want.TemplateID
		return withContainer(w, want.Container)
	}
	r.update = endpointPatchV2
	return r
}

func endpointFixedMembersEqual(got, want Endpoint) bool {
	return (want.Type == "" || got.Type == "" || got.Type == want.Type) &&
		(got.TemplateID == nil || agrees(got.TemplateID, want.TemplateID)) &&
		(got.CPU == nil || len(want.CPU) > 0) &&
		(got.GPU == nil || want.GPU != nil || len(got.GPU.Pools)+len(got.GPU.TypeIDs) == 0 && got.GPU.Count <= 1) // runs on any GPU
}

// normalizeEndpoints ignores the container if a template sets it: v2 copies the template's settings
// and doesn't return the template's id.
func normalizeEndpoints(got, want Endpoint) (Endpoint, Endpoint) {
	want.ApplyTemplate = false
	if want.TemplateID != nil || got.Container == nil {
		got.TemplateID, got.Container = want.TemplateID, want.Container
	}
	if got.CPU == nil {
		got.CPU = want.CPU
	}
	got.FlashBoot = cmp.Or(got.FlashBoot, want.FlashBoot)
	got.Workers.IdleTimeout = cmp.Or(got.Workers.IdleTimeout, want.Workers.IdleTimeout)
	if got.GPU != nil && want.GPU != nil {
		gpu := *got.GPU
		gpu.TypeIDs = inOrderOf(want.GPU.TypeIDs, gpu.TypeIDs)
		got.GPU = &gpu
	}
	return got, want
}

// alignOrder returns want in the order of have wherever order has no meaning, so that a server
// that reorders causes no update. If want has a template and doesn't set CUDA versions, it keeps have's.
func alignOrder(have, want Endpoint) Endpoint {
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
	want.Container = want.Container.withPortsOf(have.Container)
	return want
}

// groupsV1 are members of an endpoint that are sent together (completeGroups).
var groupsV1 = [][]string{
	{"cpuFlavorIds", "vcpuCount"},
	{"scalerType", "scalerValue"},
	{"workersMin", "workersMax", "idleTimeout"},
}

// endpointPatchV1 makes the body of an update. The member templateId links the endpoint to its template,
// whose changes then reach it. ApplyTemplate sends it even if the template's id hasn't changed,
// because the endpoint may have only a copy of the template's settings.
func endpointPatchV1(have, want Endpoint) (patch, error) {
	want = alignOrder(have, want)
	p, after, err := changedV1("endpoint", newEndpointV1, have, want)
	if err != nil {
		return nil, err
	}
	allMembers, err := changedMembers(clearingValues(contract.V1, "endpoint"), nil, after)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"gpuTypeIds", "allowedCudaVersions", "minCudaVersion"} {
		switch {
		case want.GPU == nil: // the endpoint keeps its GPUs
			delete(p, name)
		case have.GPU == nil:
			p[name] = allMembers[name]
		}
	}
	if want.ApplyTemplate && want.TemplateID != nil {
		if p["templateId"], err = json.Marshal(*want.TemplateID); err != nil {
			return nil, err
		}
	}
	return p, completeGroups(p, after, groupsV1)
}

// endpointPatchV2 makes the body of an update. Applying a template overwrites all settings, so
// the endpoint's own are sent with it. If the endpoint has a template that this update doesn't
// apply, no container settings are sent.
func endpointPatchV2(have, want Endpoint) (patch, error) {
	setsCUDA := want.GPU != nil && want.GPU.AllowedCUDAVersions != nil
	want = alignOrder(have, want)
	p, err := changedMembers(clearingValues(contract.V2, "endpoint"), new(newEndpointV2(have)), newEndpointV2(want))
	if err != nil {
		return nil, err
	}
	apply := want.TemplateID != nil && (want.ApplyTemplate || deref(have.TemplateID) != *want.TemplateID)
	switch {
	case apply:
		settings, err := containerV2(want.Container)
		if err != nil {
			return nil, err
		}
		maps.Copy(p, settings)
		if p["templateId"], err = json.Marshal(*want.TemplateID); err != nil {
			return nil, err
		}
	case want.TemplateID == nil:
		settings, err := changedContainer(have.Container, want.Container)
		if err != nil {
			return nil, err
		}
		maps.Copy(p, settings)
	}
	return p, patchGPUV2(p, have.GPU, want.GPU, apply && setsCUDA)
}

// patchGPUV2 reduces a change of gpu to its differences. Pools and exclusions are one selection
// and are sent together. Applying a template doesn't set CUDA versions: withCUDA sends the wanted
// ones.
func patchGPUV2(p patch, have, want *GPU, withCUDA bool) error {
	if _, differs := p["gpu"]; !differs && !withCUDA {
		return nil
	}
	cleared := contract.Body{API: contract.V2, Resource: "endpoint", Use: contract.Update}.Clearing("gpu.")
	gpu, err := changedMembers(cleared, have, *want)
	if err != nil {
		return err
	}
	allMembers, err := changedMembers(cleared, nil, *want)
	if err != nil {
		return err
	}
	gpu["pools"], gpu["excludedTypes"] = allMembers["pools"], allMembers["excludedTypes"]
	if withCUDA {
		gpu["allowedCudaVersions"] = allMembers["allowedCudaVersions"]
	}
	p["gpu"], err = json.Marshal(gpu)
	return err
}
