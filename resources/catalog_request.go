package resources

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// This file builds the catalog requests of the kinds. Unchanged attributes aren't checked,
// because an object whose GPU type has left the catalog must not fail every plan.

// refs returns the known ids of an attribute with their paths. before is the value in the
// state, nil for a new object.
func refs(attribute string, before, after attr.Value) (out []catalog.Ref) {
	old := map[string]bool{}
	for _, v := range elementsOf(before) {
		old[v.ValueString()] = true
	}
	attributePath := diagnostics.Path(attribute)
	for i, v := range elementsOf(after) {
		if !value.IsSet(v) {
			continue
		}
		ref := catalog.Ref{ID: v.ValueString(), At: attributePath, New: !old[v.ValueString()]}
		switch after.(type) {
		case types.List:
			ref.At = attributePath.AtListIndex(i)
		case types.Set:
			ref.At = attributePath.AtSetValue(v)
		}
		out = append(out, ref)
	}
	return out
}

// elementsOf returns the elements of a list or set of strings, or the string itself.
func elementsOf(v attr.Value) (out []types.String) {
	switch v := v.(type) {
	case types.String:
		return []types.String{v}
	case interface{ Elements() []attr.Value }:
		for _, e := range v.Elements() {
			if s, ok := e.(types.String); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// volumesOf returns the existing network volumes with these ids. Another rule rejects missing ones.
func volumesOf[M any](ctx context.Context, p *planrule.Plan[M], ids []string) (out []catalog.Volume) {
	for _, id := range ids {
		if v, err := p.API.NetworkVolumes.Get(ctx, id); err == nil && v.DataCenter != "" {
			out = append(out, catalog.Volume{ID: id, DataCenter: v.DataCenter})
		}
	}
	return out
}

// checkPlacement checks the location, stock and cost of a new or changed object's machines.
func checkPlacement[M any](ctx context.Context, p *planrule.Plan[M], r catalog.Request, ceiling types.Number) {
	if p.State == nil || p.ChangesObject(ctx) {
		p.Catalog.CheckPlaces(ctx, p.Check, r)
		p.Catalog.CheckStock(ctx, p.Check, r)
		p.Catalog.CheckCost(ctx, p.Check, r, ceiling)
	}
}

// checkCatalog checks kinds whose machines never change. An update checks only the cost, because its
// Request.Changes is false. Terraform plans a replacement as a create.
func checkCatalog[M any](ctx context.Context, p *planrule.Plan[M], r catalog.Request, ceiling types.Number) {
	if p.State == nil && p.Catalog.CheckNames(ctx, p.Check, r) {
		r.ComputeKnown = false
	}
	checkPlacement(ctx, p, r, ceiling)
}

func endpointRequest(ctx context.Context, p *planrule.Plan[endpoint]) catalog.Request {
	before, after := p.Prior, p.Plan
	r := catalog.Request{
		Product:           catalog.Serverless,
		DataCenters:       refs("data_center_ids", before.DataCenterIDs, after.DataCenterIDs),
		VolumesAt:         path.Root("network_volumes"),
		MachinesAttribute: "workers.max",
		PlacesKnown:       planrule.Known(ctx, after.DataCenterIDs, after.NetworkVolumes),
		Changes: p.State == nil || !after.GPU.Equal(before.GPU) || !after.CPU.Equal(before.CPU) ||
			!after.DataCenterIDs.Equal(before.DataCenterIDs) || !after.NetworkVolumes.Equal(before.NetworkVolumes),
	}
	if r.Changes {
		r.Volumes = volumesOf(ctx, p, withoutDeletedVolumes(ctx, p, p.Prior.references(), value.Strings(after.NetworkVolumes)))
	}
	workers := value.As[endpointWorkers](after.Workers)
	r.ComputeKnown = planrule.Known(ctx, after.GPU, after.CPU) && workers != nil && !workers.Max.IsUnknown()
	if workers != nil {
		r.Machines = workers.Max.ValueInt64()
	}
	if gpu := value.As[endpointGPU](after.GPU); gpu != nil {
		old := deref(value.As[endpointGPU](before.GPU))
		r.GPU = &catalog.GPUs{
			At:    diagnostics.Path("gpu.pools"),
			Types: refs("gpu.type_ids", old.TypeIDs, gpu.TypeIDs), Pools: refs("gpu.pools", old.Pools, gpu.Pools), Excluded: value.Strings(gpu.ExcludedTypes),
			Count: gpu.Count.ValueInt64(), CountAt: diagnostics.Path("gpu.count"), CountNew: !gpu.Count.Equal(old.Count),
		}
		if len(r.GPU.Types) > 0 {
			r.GPU.At = diagnostics.Path("gpu.type_ids")
		}
	}
	r.CPU = endpointCPUs(before.CPU, after.CPU)
	return r
}

// endpointCPUs returns the known CPU configurations. A configuration is new if its flavor or its
// vCPUs change.
func endpointCPUs(before, after types.List) (out []catalog.CPU) {
	for i, e := range after.Elements() {
		cpu, ok := e.(types.Object)
		if !ok {
			continue
		}
		id, _ := cpu.Attributes()["id"].(types.String)
		count, _ := cpu.Attributes()["vcpu_count"].(types.Int64)
		at := path.Root("cpu").AtListIndex(i)
		if value.IsSet(id) {
			isNew := !slices.ContainsFunc(before.Elements(), func(b attr.Value) bool { return b.Equal(e) })
			out = append(out, catalog.CPU{
				Ref: catalog.Ref{ID: id.ValueString(), At: at.AtName("id"), New: isNew}, VCPUs: count.ValueInt64(), VCPUsAt: at.AtName("vcpu_count"),
			})
		}
	}
	return out
}

func podRequest(ctx context.Context, p *planrule.Plan[pod]) catalog.Request {
	r := catalog.Request{
		Product: catalog.Pod, Cloud: p.Plan.Cloud.ValueString(), Machines: 1,
		DataCenters: refs("data_center_ids", nil, p.Plan.DataCenterIDs),
		PlacesKnown: planrule.Known(ctx, p.Plan.DataCenterIDs, p.Plan.Mounts, p.Plan.Cloud),
		Changes:     p.State == nil,
	}
	if p.Plan.DesiredState.ValueString() == api.PodExited { // a pod can be stopped whatever it costs
		r.Machines = 0
	}
	r.VolumesAt, r.Volumes = mountedVolumes(ctx, p, p.Plan.Mounts)
	r.ComputeKnown = !p.Plan.GPU.IsUnknown() && !p.Plan.CPU.IsUnknown() && !p.Plan.Cloud.IsUnknown()
	if gpu := value.As[podGPU](p.Plan.GPU); gpu != nil {
		r.ComputeKnown = r.ComputeKnown && !gpu.ID.IsUnknown() && !gpu.Count.IsUnknown()
		r.GPU = &catalog.GPUs{At: diagnostics.Path("gpu.id"), Types: refs("gpu.id", nil, gpu.ID), Count: gpu.Count.ValueInt64(), CountAt: diagnostics.Path("gpu.count")}
	}
	if cpu := value.As[podCPU](p.Plan.CPU); cpu != nil {
		r.ComputeKnown = r.ComputeKnown && !cpu.ID.IsUnknown() && !cpu.VCPUCount.IsUnknown()
		for _, ref := range refs("cpu.id", nil, cpu.ID) {
			r.CPU = append(r.CPU, catalog.CPU{Ref: ref, VCPUs: cpu.VCPUCount.ValueInt64(), VCPUsAt: diagnostics.Path("cpu.vcpu_count")})
		}
	}
	return r
}

func clusterRequest(ctx context.Context, p *planrule.Plan[cluster]) catalog.Request {
	r := catalog.Request{
		Product: catalog.Cluster, MachinesAttribute: "compute.pod_count",
		DataCenters:  refs("data_center_ids", nil, p.Plan.DataCenterIDs),
		PlacesKnown:  planrule.Known(ctx, p.Plan.DataCenterIDs, p.Plan.Mounts),
		ComputeKnown: planrule.Known(ctx, p.Plan.Compute),
		Changes:      p.State == nil,
	}
	r.VolumesAt, r.Volumes = mountedVolumes(ctx, p, p.Plan.Mounts)
	if compute := value.As[clusterCompute](p.Plan.Compute); compute != nil {
		r.Machines = compute.PodCount.ValueInt64()
		r.GPU = &catalog.GPUs{
			At: diagnostics.Path("compute.gpu_type_id"), Types: refs("compute.gpu_type_id", nil, compute.GPUTypeID),
			Count: compute.GPUCountPerPod.ValueInt64(), CountAt: diagnostics.Path("compute.gpu_count_per_pod"),
		}
	}
	return r
}

func mountedVolumes[M any](ctx context.Context, p *planrule.Plan[M], mounts types.Object) (at path.Path, volumes []catalog.Volume) {
	at = diagnostics.Path("mounts.network")
	if p.State != nil {
		return at, nil
	}
	return at, volumesOf(ctx, p, volumeIDs(mounts))
}
