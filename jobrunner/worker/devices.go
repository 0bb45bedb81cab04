package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// acquire waits until the worker has the devices that its endpoint asks for;
// false: it is to leave before that. On a machine without GPUs all workers run
// on the CPU.
func (w *worker) acquire(ctx context.Context) bool {
	if w.settings.GPU == nil || w.pool.config.Devices == nil {
		return w.stays()
	}
	for w.stays() {
		given, err := w.devicesFor(*w.settings.GPU)
		w.mu.Lock()
		if err == nil {
			w.devices = given
			w.on(placed)
			w.mu.Unlock()
			return true
		}
		w.on(refused)
		if w.reason != err.Error() {
			w.reason = err.Error()
			w.pool.logger.InfoContext(ctx, "a worker waits for GPUs", "endpoint", w.pool.id, "worker", w.id, "reason", w.reason)
		}
		w.mu.Unlock()
		select {
		case <-w.retry:
		case <-w.taking.Done():
		}
	}
	return false
}

// release gives the devices back, and the place in line.
func (w *worker) release() {
	if w.pool.config.Devices != nil {
		w.pool.config.Devices.Release(w.id)
	}
}

func (w *worker) devicesFor(want store.GPU) ([]gpu.Device, error) {
	request, err := requestOf(want)
	if err != nil {
		return nil, err
	}
	return w.pool.config.Devices.Acquire(request, w.id)
}

// requestOf is what an endpoint's choice of GPUs means for one worker. Pools
// stand for their types, in their order.
func requestOf(want store.GPU) (gpu.Request, error) {
	types := want.TypeIDs
	if len(want.Pools) > 0 {
		if types = catalog.TypesIn(want.Pools, want.ExcludedTypes); len(types) == 0 {
			return gpu.Request{}, fmt.Errorf("the GPU pools %s have no type that is known here: name others, or types", strings.Join(want.Pools, ", "))
		}
	}
	if want.Count > maxGPUs {
		return gpu.Request{}, errors.New("no machine has that many GPUs")
	}
	return gpu.Request{Types: types, Count: int(want.Count), CUDA: want.AllowedCUDAVersions, MinimumCUDA: want.MinCUDAVersion}, nil
}

// maxGPUs is beyond any machine.
const maxGPUs = 1 << 10

// forwardFreed passes the hint that devices may be free on to all workers that
// wait for some. Who is first in line is served first, whoever asks first.
func (p *Pools) forwardFreed() {
	for {
		select {
		case <-p.config.Devices.Freed():
		case <-p.ctx.Done():
			return
		}
		for _, one := range p.all() {
			one.find(func(w *worker) bool {
				if w.now().State == Throttled {
					hint(w.retry)
				}
				return false
			})
		}
	}
}

func hint(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
