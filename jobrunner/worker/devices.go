package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// acquireDevices waits until the catalog has stock for the worker's endpoint and the worker has its
// devices. It returns false if the worker was drained first. On a machine without GPUs all workers run
// on the CPU. Built-in images need no device, so examples that name GPUs run on every machine.
func (w *worker) acquireDevices(ctx context.Context, needsDevices bool) bool {
	for w.takesJobs() {
		changed := w.pool.config.Catalog.Changed()
		placement, devices, err := w.place(needsDevices)
		w.mu.Lock()
		if err == nil {
			w.devices, w.placement = devices, placement
			w.apply(devicesGranted)
			w.mu.Unlock()
			return true
		}
		w.apply(devicesRefused)
		if w.reason != err.Error() {
			w.reason = err.Error()
			w.pool.logger.InfoContext(ctx, "a worker waits to be placed", "endpoint", w.pool.id, "worker", w.id, "reason", w.reason)
		}
		w.mu.Unlock()
		select {
		case <-w.retry:
		case <-changed:
		case <-w.takingCtx.Done():
		}
	}
	return false
}

// place chooses the worker's placement and devices.
func (w *worker) place(needsDevices bool) (Placement, []gpu.Device, error) {
	offers := w.pool.config.Catalog.Current()
	if w.settings.GPU == nil {
		p, err := placeCPU(offers, w.settings)
		return p, nil, err
	}
	request, err := requestOf(offers, *w.settings.GPU)
	if err != nil {
		return Placement{}, nil, err
	}
	p, err := placeGPU(offers, w.settings, &request)
	if err != nil || !needsDevices || w.pool.config.Devices == nil {
		return p, nil, err
	}
	request.Background = w.pool.forBatches()
	devices, err := w.pool.config.Devices.Acquire(request, w.id)
	if err == nil {
		p.GPU, p.GPUs = devices[0].TypeID, len(devices)
		p.DataCenter = dataCenterOf(offers, catalog.Placement{GPU: p.GPU}, w.settings)
	}
	return p, devices, err
}

// requestOf translates an endpoint's GPUs into one worker's request. A pool means all its types, in order. All pools
// of the API together mean any GPU, also of a type that is in no pool.
func requestOf(offers *catalog.Catalog, want store.GPU) (gpu.Request, error) {
	types := want.TypeIDs
	if len(want.Pools) > 0 {
		if types = offers.TypesIn(want.Pools, want.ExcludedTypes); len(types) == 0 {
			return gpu.Request{}, fmt.Errorf("the GPU pools %s have no type that is known here: name others, or types", strings.Join(want.Pools, ", "))
		}
	}
	if want.Count > maxGPUs {
		return gpu.Request{}, fmt.Errorf("invalid gpu.count: expected at most %d, got %d", maxGPUs, want.Count)
	}
	isExcluded := func(p catalog.Pool) bool { return !slices.Contains(want.Pools, p.ID) }
	orAny := len(want.ExcludedTypes) == 0 && !slices.ContainsFunc(contract.Pools, isExcluded)
	return gpu.Request{Types: types, OrAny: orAny, Count: int(want.Count), CUDA: want.AllowedCUDAVersions, MinimumCUDA: want.MinCUDAVersion}, nil
}

// maxGPUs is more than any machine has.
const maxGPUs = 1 << 10

// retryAll wakes all workers that wait for devices, or are about to wait. The order in which they ask again
// doesn't matter, because Devices has its own queue.
func (p *Pools) retryAll() {
	p.anyWorker(func(w *worker) bool {
		notify.Signal(w.retry)
		return false
	})
}

// Placement is a worker's hardware and location in the catalog's terms, even if the machine has no GPUs.
type Placement struct {
	GPU        string // type id; "" if the worker runs on CPUs
	GPUs       int
	CPU        string // flavor id
	VCPUs      int64
	DataCenter string
}

// placeGPU chooses the first type in stock, and limits the request to types in stock.
func placeGPU(offers *catalog.Catalog, e Endpoint, request *gpu.Request) (p Placement, err error) {
	candidates, requested := request.Types, request.Types
	if len(candidates) == 0 { // any type: all pools
		var pools []string
		for _, p := range offers.Pools {
			pools = append(pools, p.ID)
		}
		candidates = offers.TypesIn(pools, nil)
	}
	if offers.Restricts() {
		request.Accept = func(t string) bool { return dataCenterOf(offers, catalog.Placement{GPU: t}, e) != "" }
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(t string) bool { return !request.Accept(t) })
		request.Types = slices.DeleteFunc(slices.Clone(requested), func(t string) bool { return !request.Accept(t) })
	}
	p = Placement{GPUs: max(1, request.Count)}
	switch {
	case len(candidates) > 0:
		p.GPU = candidates[0]
	case offers.Restricts():
		return p, outOfStock(requested, "any GPU", e)
	}
	p.DataCenter = dataCenterOf(offers, catalog.Placement{GPU: p.GPU}, e)
	return p, nil
}

// placeCPU chooses the first flavor in stock. An endpoint that names no flavor may get any.
func placeCPU(offers *catalog.Catalog, e Endpoint) (Placement, error) {
	choices := e.CPU
	if len(choices) == 0 {
		for _, f := range offers.CPUs {
			choices = append(choices, store.CPU{FlavorID: f.ID, VCPUCount: f.MinVCPU})
		}
	}
	for _, c := range choices {
		if dataCenter := dataCenterOf(offers, catalog.Placement{CPU: c.FlavorID}, e); dataCenter != "" {
			return Placement{CPU: c.FlavorID, VCPUs: c.VCPUCount, DataCenter: dataCenter}, nil
		}
	}
	if len(choices) == 0 {
		return Placement{}, nil
	}
	var flavors []string
	for _, c := range e.CPU {
		flavors = append(flavors, c.FlavorID)
	}
	return Placement{}, outOfStock(flavors, "any CPU", e)
}

// dataCenterOf returns the data center for a worker of an endpoint, or "" if none has stock.
func dataCenterOf(offers *catalog.Catalog, compute catalog.Placement, e Endpoint) string {
	compute.Product = catalog.Serverless
	return offers.Place(compute, e.DataCenters)
}

func outOfStock(requested []string, anyName string, e Endpoint) error {
	return fmt.Errorf("the catalog has %s: the worker waits for some", catalog.NoStockMessage(requested, anyName, e.DataCenters))
}
