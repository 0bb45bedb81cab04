package worker

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// feed passes jobs to a handler, one after the other, until the worker is drained or crashes.
func (w *worker) feed(ctx context.Context, handle run.Handler, spec *run.Spec) {
	w.noteStart(nil)
	w.mu.Lock()
	w.apply(jobRequested)
	w.mu.Unlock()
	var reports sync.WaitGroup // in flight
	defer reports.Wait()
	var jobs []engine.Taken
	for w.takesJobs() || len(jobs) > 0 {
		var err error
		if len(jobs) == 0 {
			jobs, err = w.pool.queue.Take(w.takingCtx, w.pool.takeParameters(w, 1))
		}
		if err != nil && w.takesJobs() {
			if !sqldb.Temporary(err) {
				w.pool.logger.Error("a worker could not take a job", "endpoint", w.pool.id, "worker", w.id, "error", err)
			}
			if w.pool.clock.Sleep(w.takingCtx, retryDelay) != nil {
				return
			}
		}
		current := jobs
		jobs = nil
		for _, job := range current {
			lives, next := w.runJob(ctx, handle, job, spec, &reports)
			if !lives {
				return
			}
			jobs = append(jobs, next...)
		}
	}
}

// runJob runs a job and reports its result. It returns whether the worker lives on, and the jobs
// that it took together with the report. These jobs may arrive before the report is recorded.
func (w *worker) runJob(ctx context.Context, handle run.Handler, job engine.Taken, spec *run.Spec, reports *sync.WaitGroup) (lives bool, next []engine.Taken) {
	var held *heldJob
	w.hold([]engine.Taken{job}, func(h *heldJob) { held = h })
	finish := func(outcome string) {
		w.logJobEnd(ctx, held, outcome)
		w.drop(held)
	}
	jobCtx, stop := context.WithCancel(ctx)
	defer context.AfterFunc(w.killed, stop)()
	endWatch := w.watchSoon(jobCtx, job.Ref, stop)
	chunks := w.batchChunksOf(jobCtx, job)
	w.log.SetJob(job.ID)
	output, failure := handle(jobCtx, run.Job{ID: job.ID, Attempt: job.Attempt, Input: job.Input, Spec: spec, Clock: w.pool.clock, Chunk: func(output []byte) error {
		if jobCtx.Err() != nil {
			return jobCtx.Err()
		}
		return chunks.add(output)
	}})
	w.log.SetJob("")
	if err := chunks.flush(); failure == nil {
		failure = err
	}
	stopping := jobCtx.Err() != nil
	stop()
	endWatch()
	killed, crashed := w.killed.Err() != nil, errors.Is(failure, ErrCrashed)
	if failure != nil && stopping && !killed && !crashed { // what stopped the job also ends or requeues it
		finish(outcomeStopped)
		return true, nil
	}
	report := resultOf(output, failure, killed)
	onRecorded := func(got engine.Directive, err error) {
		outcome := cmp.Or(report.Outcome(), outcomeStopped)
		switch {
		case err != nil:
			w.pool.logger.Error("a result could not be stored; the job runs again after a restart", "endpoint", w.pool.id, "job", job.ID, "error", err)
		case got == engine.Stale:
			outcome = outcomeStopped
		case report.HasResult():
			w.pool.backoff.recordJobDone(w.settings.Version)
		}
		finish(outcome)
	}
	if crashed || !w.takesJobs() { // then the worker ends, but only once the result is recorded
		onRecorded(w.report(ctx, job.Ref, report))
		return !crashed, nil
	}
	reports.Add(1)
	return true, w.pool.queue.ReportAndTake(context.WithoutCancel(ctx), job.Ref, report, w.pool.takeParameters(w, 1), func(got engine.Directive, err error) {
		defer reports.Done()
		if sqldb.Temporary(err) && w.pool.clock.Sleep(ctx, retryDelay) == nil {
			got, err = w.report(ctx, job.Ref, report)
		}
		onRecorded(got, err)
	})
}

// resultOf returns the report on a job that its handler has ended.
func resultOf(output []byte, failure error, killed bool) engine.Report {
	switch {
	case failure == nil:
		return engine.Done(output)
	case errors.Is(failure, ErrCrashed):
		return engine.Lost("")
	case killed:
		return engine.Returned()
	}
	return engine.Fail(failure.Error(), output)
}

var (
	errRevoked        = errors.New("the worker no longer holds the job")
	errChunkNotStored = errors.New("the deployment could not store a chunk: its log says why")
)

// report retries until the database or the spool has the report, or ctx ends. The worker waits.
func (w *worker) report(ctx context.Context, ref engine.Ref, r engine.Report) (engine.Directive, error) {
	for {
		got, err := w.pool.queue.Report(context.WithoutCancel(ctx), ref, r)
		if !sqldb.Temporary(err) || w.pool.clock.Sleep(ctx, retryDelay) != nil {
			return got, err
		}
	}
}

// watchSoon calls onRevoked when the job is taken from the worker. It starts watching after watchDelay,
// because most jobs of built-in handlers end sooner. The caller cancels ctx, and then calls end.
func (w *worker) watchSoon(ctx context.Context, ref engine.Ref, onRevoked func()) (end func()) {
	ended := make(chan struct{})
	timer := time.AfterFunc(watchDelay, func() {
		defer close(ended)
		if w.waitUntilRevoked(ctx, ref) {
			onRevoked()
		}
	})
	return func() {
		if !timer.Stop() {
			<-ended
		}
	}
}

// waitUntilRevoked waits until a job is taken from the worker. It returns false if ctx ends first.
func (w *worker) waitUntilRevoked(ctx context.Context, ref engine.Ref) bool {
	watch := w.pool.queue.Watch(ref.Endpoint, ref.ID)
	defer watch.Stop()
	for {
		// After an error, wait for the next change of the job, or until ctx ends because the job has left the worker.
		if holds, err := w.pool.queue.Holds(ctx, ref); err == nil && !holds {
			return ctx.Err() == nil
		}
		select {
		case <-watch.C:
		case <-ctx.Done():
			return false
		}
	}
}
