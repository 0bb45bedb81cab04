package worker

import (
	"fmt"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Placement is what a worker runs on, and where, in the catalog's terms. A machine that lacks the GPUs
// pretends to have them.
type Placement struct {
	GPU        string // type id; "" if the worker runs on CPUs
	GPUs       int
	CPU        string // flavor id
	VCPUs      int64
	DataCenter string
}

// placeGPU chooses the first type in stock, and limits the request to types in stock.
func placeGPU(offered *catalog.Catalog, e Endpoint, request *gpu.Request) (p Placement, err error) {
	candidates, chosen := request.Types, request.Types
	if len(candidates) == 0 { // any type: all pools
		candidates = offered.TypesIn(poolIDs(offered), nil)
	}
	if offered.Restricts() {
		request.Accept = func(t string) bool { return dataCenterOf(offered, catalog.Placing{GPU: t}, e) != "" }
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(t string) bool { return !request.Accept(t) })
		request.Types = slices.DeleteFunc(slices.Clone(chosen), func(t string) bool { return !request.Accept(t) })
	}
	p = Placement{GPUs: max(1, request.Count)}
	switch {
	case len(candidates) > 0:
		p.GPU = candidates[0]
	case offered.Restricts():
		return p, outOfStock(chosen, "any GPU", e)
	}
	p.DataCenter = dataCenterOf(offered, catalog.Placing{GPU: p.GPU}, e)
	return p, nil
}

// placeCPU chooses the first flavor in stock. An endpoint that names none may get any.
func placeCPU(offered *catalog.Catalog, e Endpoint) (Placement, error) {
	choices := e.CPU
	if len(choices) == 0 {
		for _, f := range offered.CPUs {
			choices = append(choices, store.CPU{FlavorID: f.ID, VCPUCount: f.MinVCPU})
		}
	}
	for _, c := range choices {
		if place := dataCenterOf(offered, catalog.Placing{CPU: c.FlavorID}, e); place != "" {
			return Placement{CPU: c.FlavorID, VCPUs: c.VCPUCount, DataCenter: place}, nil
		}
	}
	if len(choices) == 0 {
		return Placement{}, nil
	}
	var named []string
	for _, c := range e.CPU {
		named = append(named, c.FlavorID)
	}
	return Placement{}, outOfStock(named, "any CPU", e)
}

// dataCenterOf returns the data center for a worker of an endpoint, or "" if none has stock.
func dataCenterOf(offered *catalog.Catalog, compute catalog.Placing, e Endpoint) string {
	compute.Product = catalog.Serverless
	return offered.Place(compute, e.DataCenters, true)
}

func poolIDs(offered *catalog.Catalog) (ids []string) {
	for _, p := range offered.Pools {
		ids = append(ids, p.ID)
	}
	return ids
}

func outOfStock(requested []string, otherwise string, e Endpoint) error {
	return fmt.Errorf("the catalog has %s: the worker waits for some", catalog.NoStock(requested, otherwise, e.DataCenters))
}
