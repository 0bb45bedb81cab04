package catalog

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
)

// CheckNames reports ids that the catalog lacks, and counts that exceed the largest machine.
// Management API v2 accepts only the GPU types, pools and CPU flavors in its catalog, so an
// unknown one is reported at the configured level. The catalog doesn't list every data center that the API
// accepts, so an unknown data center is at most a warning. API v1 has no catalog, and its documented
// lists are incomplete, so each unknown id is at most a warning there.
func (c *Checks) CheckNames(ctx context.Context, check diagnostics.Check, r Request) (hasError bool) {
	if c.Names == Off {
		return false
	}
	if c.client.Version == api.V1 {
		c.checkDocumented(check, r)
		return false
	}
	before := check.Diagnostics.ErrorsCount()
	c.checkListed(ctx, check, r)
	return check.Diagnostics.ErrorsCount() > before
}

func (c *Checks) checkListed(ctx context.Context, check diagnostics.Check, r Request) {
	if r.GPU != nil && (anyNew(r.GPU.Types) || anyNew(r.GPU.Pools) || r.GPU.CountNew) {
		if all, ok := c.GPUTypes(ctx, check); ok {
			c.Names.reportUnknown(check, notListed, "GPU type", r.GPU.Types, idsOf(all, gpuID))
			c.Names.reportUnknown(check, notListed, "GPU pool", r.GPU.Pools, idsOf(all, gpuPool))
			c.checkGPUCount(check, r, all)
		}
	}
	for _, cpu := range r.CPU {
		if !cpu.New {
			continue
		}
		if all, ok := c.cpuTypes(ctx, check); ok {
			c.Names.reportUnknown(check, notListed, "CPU flavor", []Ref{cpu.Ref}, idsOf(all, cpuID))
			c.checkVCPUs(check, cpu, all)
		}
	}
	if anyNew(r.DataCenters) {
		if all, ok := c.dataCenters(ctx, check); ok {
			c.Names.atMostWarning().reportUnknown(check, notListed, "data center", r.DataCenters, idsOf(all, dataCenterID))
		}
	}
}

// CheckNewDataCenters reports, as errors, the unknown data centers of an object that the plan
// replaces: the API would reject the replacement only after the object is deleted. It doesn't check
// on API v1, whose documented list is incomplete.
func (c *Checks) CheckNewDataCenters(ctx context.Context, check diagnostics.Check, refs []Ref) {
	if c.Names != Error || c.client.Version == api.V1 || !anyNew(refs) {
		return
	}
	if all, ok := c.dataCenters(ctx, check); ok {
		const format = notListed + " The object would be deleted before the API rejects its replacement: correct the id, or set names = \"warning\" in plan_checks of the provider block."
		c.Names.reportUnknown(check, format, "data center", refs, idsOf(all, dataCenterID))
	}
}

func (c *Checks) checkDocumented(check diagnostics.Check, r Request) {
	const format = "The %s %q is not documented for management API v1, which has no catalog%s"
	level := c.Names.atMostWarning()
	if r.GPU != nil {
		level.reportUnknown(check, format, "GPU type", r.GPU.Types, contract.GPUTypeIDs)
	}
	for _, cpu := range r.CPU {
		level.reportUnknown(check, format, "CPU flavor", []Ref{cpu.Ref}, append(slices.Clone(contract.CPUFlavorIDs), "cpu3m", "cpu5m")) // other documents mention these
	}
	level.reportUnknown(check, format, "data center", r.DataCenters, contract.DataCenterIDs)
}

// notListed is a format for a title, an id and a suggestion.
const notListed = "The catalog of the deployment has no %s %q%s"

// reportUnknown reports new ids that aren't known.
func (l Level) reportUnknown(check diagnostics.Check, format, title string, refs []Ref, known []string) {
	for _, ref := range refs {
		if ref.New && !slices.Contains(known, ref.ID) {
			l.report(check, ref.At, "Unknown "+title, format, title, ref.ID, cmp.Or(near.Suggest(ref.ID, known), "."))
		}
	}
}

// checkGPUCount compares a GPU count with the largest machine.
func (c *Checks) checkGPUCount(check diagnostics.Check, r Request, all []api.GPUType) {
	if !r.ComputeKnown || !r.Changes {
		return
	}
	types, missing := r.GPU.choose(all)
	if r.Product == Serverless {
		if len(missing) == 0 {
			c.checkWorkerGPUs(check, r, types)
		}
		return
	}
	for _, t := range types {
		switch largest := r.inCloud(t.MaxCount); {
		case largest == 0:
			c.Names.report(check, r.GPU.At, "The cloud does not offer the GPU type", "The %s cloud does not offer the GPU type %q.", r.cloud(), t.ID)
		case r.GPU.Count > largest:
			c.Names.report(check, r.GPU.CountAt, "More GPUs than a machine has", "The largest machine with the GPU type %q in the %s cloud has %d GPUs, and the configuration asks for %d.", t.ID, r.cloud(), largest, r.GPU.Count)
		}
	}
}

// checkWorkerGPUs reports a GPU count that no machine of the types has in either cloud: an endpoint
// doesn't choose a cloud.
func (c *Checks) checkWorkerGPUs(check diagnostics.Check, r Request, types []api.GPUType) {
	var largest int64
	for _, t := range types {
		n := max(t.MaxCount.Secure, t.MaxCount.Community)
		if n == 0 {
			return // the catalog doesn't list the count
		}
		largest = max(largest, n)
	}
	if len(types) > 0 && r.GPU.Count > largest {
		chosen := idsOf(slices.Concat(r.GPU.Types, r.GPU.Pools), func(ref Ref) string { return ref.ID })
		slices.Sort(chosen)
		c.Names.report(check, r.GPU.CountAt, "More GPUs than a machine has", "The largest machine of %s has %d GPUs, and the configuration asks for %d for each worker.", strings.Join(chosen, ", "), largest, r.GPU.Count)
	}
}

func (c *Checks) checkVCPUs(check diagnostics.Check, cpu CPU, all []api.CPUType) {
	for _, t := range all {
		if t.ID == cpu.ID && cpu.VCPUs > 0 && t.VCPU.Max > 0 && (cpu.VCPUs < t.VCPU.Min || cpu.VCPUs > t.VCPU.Max) {
			c.Names.report(check, cpu.VCPUsAt, "vCPUs that the flavor does not have", "The CPU flavor %q has %d to %d vCPUs, not %d.", t.ID, t.VCPU.Min, t.VCPU.Max, cpu.VCPUs)
		}
	}
}

func (r Request) cloud() string { return cmp.Or(r.Cloud, secure) }

func (r Request) inCloud(count api.CloudCount) int64 {
	if r.cloud() == community {
		return count.Community
	}
	return count.Secure
}

func anyNew(refs []Ref) bool {
	return slices.ContainsFunc(refs, func(r Ref) bool { return r.New })
}

// idsOf returns the non-empty ids of a catalog list.
func idsOf[T any](all []T, id func(T) string) (ids []string) {
	for _, t := range all {
		if s := id(t); s != "" {
			ids = append(ids, s)
		}
	}
	return ids
}
