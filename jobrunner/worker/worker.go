package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// worker takes one job after the other. It reaches the engine by Take and
// Report alone.
type worker struct {
	id     string
	pool   *pool
	run    Handler
	retire context.CancelFunc // ends it while it waits for a job

	// guarded by pool.mu
	busy  bool
	since time.Time // when it last became idle
}

func newWorker(p *pool, run Handler, now time.Time) *worker {
	return &worker{id: uuid.NewString()[:13], pool: p, run: run, since: now}
}

// work ends with ctx, when a job kills the worker, or when the pool retires it
// while it waits.
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
			lives := w.do(ctx, job)
			w.pool.occupied(w, false)
			if !lives {
				return
			}
		}
	}
}

// do runs a job and reports what came of it, and tells whether the worker
// lives on.
func (w *worker) do(ctx context.Context, job engine.Taken) (lives bool) {
	queue := w.pool.queue
	own, stop := w.whileMine(ctx, job.Ref)
	output, err := w.run(own, Job{Taken: job, Clock: w.pool.clock, Chunk: func(output []byte) error {
		got, err := queue.Report(own, job.Ref, engine.Chunk(output, nil))
		if err == nil && got == engine.Stale {
			err = errNotMine
		}
		return err
	}})
	told := own.Err() != nil
	stop()
	report := engine.Done(output)
	switch {
	case errors.Is(err, ErrCrashed):
		report = engine.Lost()
	case err != nil && told: // to stop; by one who knows what becomes of the job
		return true
	case err != nil:
		report = engine.Fail(err.Error(), output)
	}
	// A result is worth more than a prompt stop.
	if _, err := queue.Report(context.WithoutCancel(ctx), job.Ref, report); err != nil {
		w.pool.log.Error("a result could not be kept; the job runs again after a restart", "endpoint", w.pool.id, "job", job.ID, "error", err)
	}
	return !errors.Is(err, ErrCrashed)
}

var errNotMine = errors.New("the job is not this worker's any more")

// lookAgain is when a worker looks whether its job is still its own although
// nobody said anything: what happened before it listened it would not hear.
const lookAgain = time.Second

// whileMine makes a context that ends as soon as the job is not this worker's
// any more, or by stop.
func (w *worker) whileMine(ctx context.Context, ref engine.Ref) (own context.Context, stop func()) {
	own, cancel := context.WithCancel(ctx)
	watch := w.pool.queue.Watch(ref.Endpoint, ref.ID)
	timer := w.pool.clock.NewTimer(lookAgain)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-watch.C:
			case <-timer.C:
			case <-own.Done():
				return
			}
			// An error leaves it to the next hint, and to the report.
			if mine, err := w.pool.queue.Holds(own, ref); err == nil && !mine {
				cancel()
			}
		}
	})
	return own, func() {
		cancel()
		watch.Stop()
		timer.Stop()
		watching.Wait()
	}
}
