package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// acquireDevices waits until there is stock of what the worker's endpoint requires, and
// the worker has its devices; false: it was drained before that. On a machine without
// GPUs all workers run on the CPU. What is built in needs no device, whatever its
// endpoint asks for: it would not use any, and an example that names GPUs runs
// everywhere.
func (w *worker) acquireDevices(ctx context.Context, needsDevices bool) bool {
	for w.takesJobs() {
		changed := w.pool.config.Catalog.Changed()
		place, given, err := w.place(needsDevices)
		w.mu.Lock()
		if err == nil {
			w.devices, w.placement = given, place
			w.apply(placed)
			w.mu.Unlock()
			return true
		}
		w.apply(refused)
		if w.reason != err.Error() {
			w.reason = err.Error()
			w.pool.logger.InfoContext(ctx, "a worker waits to be placed", "endpoint", w.pool.id, "worker", w.id, "reason", w.reason)
		}
		w.mu.Unlock()
		if busy := new(gpu.BusyError); errors.As(err, &busy) && !w.pool.batch() {
			w.pool.config.makeRoom(w.settings)
		}
		select {
		case <-w.retry:
		case <-changed:
		case <-w.taking.Done():
		}
	}
	return false
}

// place finds a place for the worker, and its devices.
func (w *worker) place(needsDevices bool) (Placement, []gpu.Device, error) {
	offered := w.pool.config.Catalog.Now()
	if w.settings.GPU == nil {
		p, err := placeCPU(offered, w.settings)
		return p, nil, err
	}
	request, err := requestOf(offered, *w.settings.GPU)
	if err != nil {
		return Placement{}, nil, err
	}
	p, err := placeGPU(offered, w.settings, &request)
	if err != nil || !needsDevices || w.pool.config.Devices == nil {
		return p, nil, err
	}
	request.Background = w.pool.batch()
	given, err := w.pool.config.Devices.Acquire(request, w.id)
	if err == nil {
		p.GPU, p.GPUs = given[0].TypeID, len(given)
		p.DataCenter = dataCenterOf(offered, catalog.Placing{GPU: p.GPU}, w.settings)
	}
	return p, given, err
}

// releaseDevices gives the devices back, and the place in line.
func (w *worker) releaseDevices() {
	if w.pool.config.Devices != nil {
		w.pool.config.Devices.Release(w.id)
	}
}

// requestOf is what an endpoint's choice of GPUs means for one worker. Pools
// stand for their types, in their order.
func requestOf(offered *catalog.Catalog, want store.GPU) (gpu.Request, error) {
	types := want.TypeIDs
	if len(want.Pools) > 0 {
		if types = offered.TypesIn(want.Pools, want.ExcludedTypes); len(types) == 0 {
			return gpu.Request{}, fmt.Errorf("the GPU pools %s have no type that is known here: name others, or types", strings.Join(want.Pools, ", "))
		}
	}
	if want.Count > maxGPUs {
		return gpu.Request{}, fmt.Errorf("invalid gpu.count: expected at most %d, got %d", maxGPUs, want.Count)
	}
	return gpu.Request{Types: types, Count: int(want.Count), CUDA: want.AllowedCUDAVersions, MinimumCUDA: want.MinCUDAVersion}, nil
}

// maxGPUs is more than any machine has.
const maxGPUs = 1 << 10

// forwardFreed wakes all workers that wait for devices when some may be free. The
// inventory serves the first of its queue first, in whatever order they ask.
func (p *Pools) forwardFreed() {
	for {
		select {
		case <-p.config.Devices.Freed():
		case <-p.ctx.Done():
			return
		}
		for _, endpointPool := range p.all() {
			endpointPool.find(func(w *worker) bool {
				if w.now().State == Throttled {
					notify.Signal(w.retry)
				}
				return false
			})
		}
	}
}
