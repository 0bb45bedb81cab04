package worker

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// worker takes one job after the other. It reaches the engine by Take and
// Report alone.
type worker struct {
	id   string
	pool *pool
	run  handler
	busy bool // guarded by pool.mu
}

func newWorker(p *pool, run handler) *worker {
	return &worker{id: uuid.NewString()[:13], pool: p, run: run}
}

var errIdle = errors.New("the worker was idle for its time")

// work ends with ctx, or when the worker was idle for long enough and is not
// needed.
func (w *worker) work(ctx context.Context) {
	defer w.pool.left(w)
	for ctx.Err() == nil {
		jobs, err := w.take(ctx)
		switch {
		case errors.Is(err, errIdle):
			if w.pool.retire(w) {
				return
			}
		case err != nil && ctx.Err() == nil:
			w.pool.log.Error("a worker could not take a job", "endpoint", w.pool.id, "worker", w.id, "error", err)
			if w.pool.clock.Sleep(ctx, retake) != nil {
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

// take waits for a job as long as the idle time-out.
func (w *worker) take(ctx context.Context) ([]engine.Taken, error) {
	settings := w.pool.current()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := w.pool.clock.NewTimer(settings.IdleTimeout)
	defer timer.Stop()
	go func() {
		select {
		case <-timer.C:
			cancel(errIdle)
		case <-ctx.Done():
		}
	}()
	jobs, err := w.pool.queue.TakeOrWait(ctx, engine.Take{Endpoint: w.pool.id, Worker: w.id, Max: 1, Timeout: settings.Timeout})
	if err != nil && errors.Is(context.Cause(ctx), errIdle) {
		err = errIdle
	}
	return jobs, err
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
