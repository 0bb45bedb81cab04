package worker

import (
	"context"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// The batches of an endpoint have a pool of their own, as their requests have a queue of
// their own. It keeps no worker that has nothing to do. It gets the GPUs that no other
// worker waits for, and gives one back as soon as another worker waits for it.

// batchSettings are the settings of the workers of an endpoint's batches.
func batchSettings(e Endpoint) Endpoint {
	e.ID, e.Min = engine.BatchQueue(e.ID), 0
	e.ByRequests, e.ScalerValue = true, 1
	return e
}

// batch reports whether the workers are those of batches.
func (h *home) batch() bool { return engine.IsBatchQueue(h.id) }

// startBatch starts the pool of an endpoint's batches if the endpoint's workers are here.
func (p *Pools) startBatch(endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := engine.BatchQueue(endpoint)
	if one := p.pools[endpoint]; one != nil && p.pools[queue] == nil && p.ctx.Err() == nil && !p.drained {
		p.pools[queue] = startPool(p.ctx, p.config, batchSettings(one.settings()))
	}
}

// ofEndpoint are the pools of an endpoint that are here.
func (p *Pools) ofEndpoint(endpoint string) []*pool {
	return slices.DeleteFunc([]*pool{p.pool(endpoint), p.pool(engine.BatchQueue(endpoint))}, func(one *pool) bool { return one == nil })
}

// makeRoom kills one worker of a batch whose devices an endpoint waits for. Its jobs go
// back to their queue.
func (p *Pools) makeRoom(e Endpoint) {
	request, err := requestOf(p.config.Catalog.Now(), *e.GPU)
	if err != nil {
		return
	}
	for _, one := range p.all() {
		if !one.batch() {
			continue
		}
		if w := one.find(func(w *worker) bool { return w.hasDeviceOf(request.Types) }); w != nil {
			w.yield()
			return
		}
	}
}

// hasDeviceOf reports whether a worker has a device of the types, and keeps it so far; no
// types stand for all.
func (w *worker) hasDeviceOf(types []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.yields && len(w.devices) > 0 && (len(types) == 0 || slices.Contains(types, w.devices[0].TypeID))
}

// yield ends a worker for its devices.
func (w *worker) yield() {
	w.mu.Lock()
	w.yields = true
	w.mu.Unlock()
	w.noteKill("a job that is no request of a batch needs its GPU")
	w.drain()
	w.kill()
}

// giveBack gives a job of a worker that has ended back to the queue.
func (w *worker) giveBack(ctx context.Context, ref engine.Ref) error {
	w.mu.Lock()
	yields := w.yields
	w.mu.Unlock()
	if yields {
		return w.pool.queue.Return(ctx, ref)
	}
	_, err := w.pool.queue.Report(ctx, ref, engine.LostBecause(w.lossReason()))
	return err
}
