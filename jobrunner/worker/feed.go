package worker

import (
	"context"
	"errors"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// feed hands jobs to a handler, one after the other, until the worker is to
// leave or dies of a job.
func (w *worker) feed(ctx context.Context, run Handler, spec *Spec) {
	w.begins(nil)
	w.ready()
	for w.stays() {
		jobs, err := w.pool.queue.TakeOrWait(w.taking, w.pool.take(w, 1))
		if err != nil && w.stays() {
			w.pool.logger.Error("a worker could not take a job", "endpoint", w.pool.id, "worker", w.id, "error", err)
			if w.pool.clock.Sleep(w.taking, retake) != nil {
				return
			}
		}
		for _, job := range jobs {
			if !w.do(ctx, run, job, spec) {
				return
			}
		}
	}
}

// do runs a job and reports what came of it, and tells whether the worker
// lives on.
func (w *worker) do(ctx context.Context, run Handler, job engine.Taken, spec *Spec) (lives bool) {
	var mine *held
	w.hold([]engine.Taken{job}, func(h *held) { mine = h })
	defer func() {
		w.pool.mu.Lock()
		defer w.pool.mu.Unlock()
		w.drop(mine)
	}()
	queue := w.pool.queue
	own, stop := context.WithCancel(ctx)
	w.watching.Go(func() {
		if w.taken(own, job.Ref) {
			stop()
		}
	})
	output, err := run(own, Job{Taken: job, Spec: spec, Clock: w.pool.clock, Chunk: func(output []byte) error {
		got, err := queue.Report(own, job.Ref, engine.Chunk(output, nil))
		if err == nil && got == engine.Stale {
			err = errNotMine
		}
		return err
	}})
	told := own.Err() != nil
	stop()
	w.watching.Wait()
	report := engine.Done(output)
	switch {
	case errors.Is(err, ErrCrashed):
		report = engine.Lost()
	case err != nil && told: // to stop; by one who knows what becomes of the job
		w.parts(ctx, mine, stopped)
		return true
	case err != nil:
		report = engine.Fail(err.Error(), output)
	}
	outcome := report.Outcome()
	// A result is worth more than a prompt stop.
	switch got, err := queue.Report(context.WithoutCancel(ctx), job.Ref, report); {
	case err != nil:
		w.pool.logger.Error("a result could not be kept; the job runs again after a restart", "endpoint", w.pool.id, "job", job.ID, "error", err)
	case got == engine.Stale:
		outcome = stopped
	case report.Result():
		w.pool.works()
	}
	w.parts(ctx, mine, outcome)
	return !errors.Is(err, ErrCrashed)
}

var errNotMine = errors.New("the job is not this worker's any more")

// taken waits until a job is not the worker's any more, whoever took it away,
// and then is true; it is false when ctx has ended.
func (w *worker) taken(ctx context.Context, ref engine.Ref) bool {
	watch := w.pool.queue.Watch(ref.Endpoint, ref.ID)
	defer watch.Stop()
	timer := w.pool.clock.NewTimer(lookAgain)
	defer timer.Stop()
	for {
		select {
		case <-watch.C:
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
		// An error leaves it to the next hint, and to the report.
		if mine, err := w.pool.queue.Holds(ctx, ref); err == nil && !mine {
			return true
		}
	}
}
