package worker

import (
	"context"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// An endpoint's batches have their own queue and their own pool, without a minimum of workers. The pool uses
// GPUs that no other worker or pod waits for, and gives a GPU back as soon as a worker or pod waits for it.

func batchSettings(e Endpoint) Endpoint {
	e.ID, e.Min = engine.BatchQueue(e.ID), 0
	e.ByRequests, e.ScalerValue = true, 1
	return e
}

func (p *poolCore) forBatches() bool { return engine.IsBatchQueue(p.id) }

// startBatch starts the pool for an endpoint's batches if this process runs the endpoint's workers.
func (p *Pools) startBatch(endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := engine.BatchQueue(endpoint)
	if pool := p.pools[endpoint]; pool != nil && p.pools[queue] == nil && p.ctx.Err() == nil && !p.drained {
		p.pools[queue] = startPool(p.ctx, p.config, batchSettings(pool.settings()))
	}
}

// poolsOf returns an endpoint's pools in this process.
func (p *Pools) poolsOf(endpoint string) []*pool {
	return slices.DeleteFunc([]*pool{p.pool(endpoint), p.pool(engine.BatchQueue(endpoint))}, func(pool *pool) bool { return pool == nil })
}

// makeRoom preempts one batch worker that has a device of the types, unless a batch worker is about to release such a device.
func (p *Pools) makeRoom(types []string) {
	owners := p.config.Devices.OwnersOf(types)
	batchWorker := func(preempted bool) *worker {
		return p.anyWorker(func(w *worker) bool { return w.pool.forBatches() && owners[w.id] && w.isPreempted() == preempted })
	}
	if w := batchWorker(false); w != nil && batchWorker(true) == nil {
		w.preempt("a worker or pod that doesn't belong to a batch needs its GPU")
	}
}

func (w *worker) isPreempted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.preempted
}

// preempt kills a worker for a reason other than the jobs that it runs.
func (w *worker) preempt(reason string) {
	w.mu.Lock()
	w.preempted = true
	w.mu.Unlock()
	w.noteKill(reason)
	w.drain()
	w.kill()
}

// requeue reports a job of an ended worker as lost or, if the worker was preempted, as returned, which counts no retry.
func (w *worker) requeue(ctx context.Context, ref engine.Ref) error {
	report := engine.Lost(w.lossReason())
	if w.isPreempted() {
		report = engine.Returned()
	}
	_, err := w.pool.queue.Report(ctx, ref, report)
	return err
}
