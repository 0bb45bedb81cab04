package api

import (
	"errors"
	"slices"
)

// Whether an object is the one that a create asked for: it equals it in
// everything that the version returns. What a version never returns, and what
// the caller left to the server, is not compared; nor is the order of lists
// where it means nothing.

// same compares what an update could change by asking what an update would
// send, and what is fixed at create by fixed.
func (r *restCollection[T, W]) same(got, want T) bool {
	if r.name(got) != r.name(want) || r.sameFixed != nil && !r.sameFixed(got, want) {
		return false
	}
	if r.normalize != nil {
		got, want = r.normalize(got, want)
	}
	changes, err := r.update(got, want)
	return errors.Is(err, errNoUpdate) || err == nil && len(changes) == 0
}

// errNoUpdate marks a kind that can't be changed.
var errNoUpdate = errors.New("a registry auth can't be changed: make a new one with the new name or credentials, and delete this one")

func sameFixedOfVolume(got, want NetworkVolume) bool {
	return got.DataCenter == want.DataCenter && agrees(got.Type, want.Type)
}

func sameFixedOfTemplate(got, want Template) bool {
	return got.Serverless == want.Serverless &&
		(want.Category == "" || got.Category == want.Category) &&
		(got.Mounts.Persistent == nil) == (want.Mounts.Persistent == nil)
}

func normalizeTemplates(got, want Template) (Template, Template) {
	got.Ports, want.Ports = slices.Sorted(slices.Values(got.Ports)), slices.Sorted(slices.Values(want.Ports))
	if got.AllowedCUDAVersions != nil && want.AllowedCUDAVersions != nil {
		got.AllowedCUDAVersions = new(inOrderOf(*want.AllowedCUDAVersions, *got.AllowedCUDAVersions))
	}
	return got, want
}

func sameFixedOfEndpoint(got, want Endpoint) bool {
	return (want.Type == "" || got.Type == "" || got.Type == want.Type) &&
		(got.TemplateID == nil || agrees(got.TemplateID, want.TemplateID)) &&
		(got.CPU == nil || len(want.CPU) > 0) &&
		(got.GPU == nil || want.GPU != nil || anyOf(*got.GPU))
}

// anyOf is what a server answers for an endpoint that may run on any GPU.
func anyOf(got GPU) bool {
	return len(got.Pools)+len(got.TypeIDs) == 0 && got.Count <= 1
}

// normalizeEndpoints leaves the container out where a template gives it: the
// copy says nothing of the template's id.
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

// agrees tells whether the server's value is the one asked for, or none was.
func agrees(got, want *string) bool {
	return want == nil || got == nil || *got == *want
}
