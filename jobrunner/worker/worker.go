package worker

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// worker takes one job after the other. It reaches the engine by Take and
// Report alone.
type worker struct {
	id     string
	pool   *pool
	run    handler
	retire context.CancelFunc // ends it while it waits for a job

	// guarded by pool.mu
	busy  bool
	since time.Time // when it last became idle
}

func newWorker(p *pool, run handler, now time.Time) *worker {
	return &worker{id: uuid.NewString()[:13], pool: p, run: run, since: now}
}

// work ends with ctx, or when the pool retires the worker while it waits.
func (w *worker) work(ctx, idling context.Context) {
	defer w.pool.left(w)
	for idling.Err() == nil {
		jobs, err := w.pool.queue.TakeOrWait(idling, engine.Take{Endpoint: w.pool.id, Worker: w.id, Max: 1, Timeout: w.pool.current().Timeout})
		if err != nil && idling.Err() == nil {
			w.pool.log.Error("a worker could not take a job", "endpoint", w.pool.id, "worker", w.id, "error", err)
			if w.pool.clock.Sleep(idling, retake) != nil {
				return
			}
		}
		for _, job := range jobs {
			w.pool.occupied(w, true)
			w.do(ctx, job)
			w.pool.occupied(w, false)
		}
	}
}

func (w *worker) do(ctx context.Context, job engine.Taken) {
	output, err := w.run(ctx, job)
	report := engine.Done(output)
	if err != nil {
		report = engine.Fail(err.Error(), output)
	}
	// A result is worth more than a prompt stop.
	if _, err := w.pool.queue.Report(context.WithoutCancel(ctx), job.Ref, report); err != nil {
		w.pool.log.Error("a result could not be kept; the job runs again after a restart", "endpoint", w.pool.id, "job", job.ID, "error", err)
	}
}
