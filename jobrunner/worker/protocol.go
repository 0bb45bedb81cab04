package worker

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// Protocol handles one worker's requests of the worker protocol. Built-in workers don't use it.
type Protocol interface {
	Take(ctx context.Context, limit int) ([]engine.Taken, error)
	WaitForStops(ctx context.Context) []string
	Report(ctx context.Context, job string, r engine.Report, replace bool) error
	BeginPost(job string) (done func())
	ReportIdle(ctx context.Context) error
	Ping(ctx context.Context, jobs []string) error
	SetSDK(release string)
	ReportUnhealthy(reason string)
	Note(text string) // adds a line to the worker's log
}

// Authorize returns a worker's Protocol, ErrNoWorker if the worker is unknown, or ErrKey if the key isn't its own.
func (p *Pools) Authorize(endpoint, id, key string) (Protocol, error) {
	pool := p.pool(endpoint)
	if pool == nil {
		return nil, ErrNoWorker
	}
	w := pool.find(func(w *worker) bool { return w.id == id && w.view().usesProtocol })
	switch {
	case w == nil:
		return nil, ErrNoWorker
	case subtle.ConstantTimeCompare([]byte(key), []byte(w.key)) != 1:
		return nil, ErrKey
	}
	return w, nil
}

// Take waits for jobs and returns at most limit. If ctx ends or the worker is drained first, it returns none and no error.
func (w *worker) Take(ctx context.Context, limit int) ([]engine.Taken, error) {
	wasEmpty, ok := w.beginTake()
	if !ok {
		// Respond late: after an empty response, a worker that is about to exit would repeat its request.
		select {
		case <-w.gone:
		case <-ctx.Done():
		}
		return nil, nil
	}
	defer w.endTake()
	requestedAt := w.pool.clock.Now()
	takeCtx, stop := context.WithCancel(w.takingCtx)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	jobs, err := w.pool.queue.Take(takeCtx, w.pool.takeParameters(w, limit))
	if err != nil && takeCtx.Err() != nil {
		err = nil
	}
	w.mu.Lock()
	w.notePace(requestedAt, len(jobs), wasEmpty)
	if slices.ContainsFunc(jobs, func(job engine.Taken) bool { return w.earlierRunEnded(job.ID) }) {
		stop() // a job that can run now doesn't wait for the earlier runs of the others
	}
	w.mu.Unlock()
	jobs = slices.DeleteFunc(jobs, func(job engine.Taken) bool {
		if w.await(takeCtx, func() bool { return w.earlierRunEnded(job.ID) }) {
			return false
		}
		_, returnErr := w.pool.queue.Report(context.WithoutCancel(ctx), job.Ref, engine.Returned())
		err = errors.Join(err, returnErr)
		return true
	})
	w.hold(jobs, w.watch)
	return jobs, err
}

// earlierRunEnded reports whether the worker has stopped an earlier run of a job, for example a run that timed out
// and was retried. Until then the worker can't get the job again: a report names only the job, so it could be about
// either run. The caller holds the worker's lock.
func (w *worker) earlierRunEnded(job string) bool {
	h := w.jobs[job]
	return h == nil || h.lost
}

// await waits until condition returns true, which it calls with the worker's lock held after each change of the
// jobs. It returns false if ctx ends first.
func (w *worker) await(ctx context.Context, condition func() bool) bool {
	for {
		w.mu.Lock()
		isMet, changed := condition(), w.changed
		w.mu.Unlock()
		if isMet {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// beginTake records that the worker requests jobs, and reports whether it holds none. ok is false if
// the worker must not get more jobs.
func (w *worker) beginTake() (isEmpty, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.takesJobs() {
		return false, false
	}
	w.apply(jobRequested)
	w.takers.Add(1)
	w.openTakes++
	return len(w.jobs) == 0, true
}

func (w *worker) endTake() {
	w.mu.Lock()
	w.openTakes--
	w.lastTakeEnd = w.pool.clock.Now()
	w.mu.Unlock()
	w.takers.Done()
}

// watch kills a worker that doesn't stop a revoked job. Its other jobs count no retry. The caller holds the worker's lock.
func (w *worker) watch(h *heldJob) {
	heldCtx, endWatch := context.WithCancel(w.life) // ends when the job leaves the worker
	h.endWatch = endWatch
	w.watchers.Go(func() {
		if !w.waitUntilRevoked(heldCtx, h.ref) {
			return
		}
		w.mu.Lock()
		h.revoked = true
		w.jobsChanged()
		w.mu.Unlock()
		// A recorded result takes the job from the worker.
		if w.pool.clock.Sleep(heldCtx, stopGrace) == nil && w.await(heldCtx, func() bool { return h.results == 0 && heldCtx.Err() == nil }) {
			reason := "it did not stop a job within " + stopGrace.String()
			w.pool.logger.Warn("a worker is killed: "+reason, "endpoint", w.pool.id, "worker", w.id, "job", h.ref.ID)
			w.preempt(fmt.Sprintf("%s (%s)", reason, h.ref.ID))
		}
	})
}

// BeginPost records a POST request about a job, until done is called. Meanwhile WaitForStops doesn't name the
// job, because the request may have its result.
func (w *worker) BeginPost(job string) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.jobs[job]
	if h == nil {
		return func() {}
	}
	h.posts++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if h.posts--; h.revoked || !w.takesJobs() {
			w.jobsChanged() // WaitForStops may name it now, and awaitPosts may end
		}
	}
}

// WaitForStops returns the jobs that the worker should stop, each once. It waits until there is a job to
// stop, ctx ends, or the worker is drained or gone.
func (w *worker) WaitForStops(ctx context.Context) []string {
	var drained <-chan struct{}
	if w.takesJobs() {
		drained = w.takingCtx.Done()
	}
	for {
		ids, changed := w.jobsToStop()
		if len(ids) > 0 {
			return ids
		}
		select {
		case <-changed:
		case <-drained:
			return nil
		case <-w.gone:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// jobsToStop returns the ids of jobs that the worker should stop, each id only once.
func (w *worker) jobsToStop() (ids []string, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, h := range w.jobs {
		if h.revoked && !h.lost && h.posts == 0 && h.results == 0 && h.stopSentAt.IsZero() {
			h.stopSentAt = w.pool.clock.Now()
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, w.changed
}

// Report records a report on a job. It ignores a job that the worker doesn't hold. With replace, a
// fresh worker replaces this worker after the job.
func (w *worker) Report(ctx context.Context, job string, r engine.Report, replace bool) error {
	w.mu.Lock()
	h := w.jobs[job]
	if h != nil && r.Ends() {
		h.results++
	}
	w.mu.Unlock()
	if h == nil {
		return nil
	}
	got, err := w.pool.queue.Report(ctx, h.ref, r)
	if err == nil && got == engine.SpooledInMemory {
		// A worker forgets a result once it is accepted, so the result must outlive this process
		// first. After an error the worker repeats the report.
		waitCtx, cancel := context.WithTimeout(ctx, deliveryPatience)
		err = w.pool.queue.WaitUntilStored(waitCtx, h.ref)
		cancel()
	}
	if err != nil {
		if r.Ends() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if h.results--; h.revoked {
				w.jobsChanged() // WaitForStops may name it now
			}
		}
		return err
	}
	if r.HasResult() && got == engine.Accepted {
		w.pool.backoff.recordJobDone(w.settings.Version)
	}
	if outcome := r.Outcome(); outcome != "" {
		if got == engine.Stale {
			outcome = outcomeStopped
		}
		w.logJobEnd(ctx, h, outcome)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h.missingSince = time.Time{} // the worker has the job
	if r.Ends() {
		if replace {
			w.endTaking()
		}
		h.results--
		w.remove(h)
	}
	return nil
}

// Ping records which jobs a worker says it runs. A ping doesn't prove that the jobs run: the
// process that pings may outlive the process that works. A held job that pings omit for missGrace is
// lost. A ping with a job that the worker doesn't hold is ignored: releases 1.7.12 to 1.9 of the
// public SDK name the jobs of all workers started in the same folder.
func (w *worker) Ping(ctx context.Context, jobs []string) error {
	return w.reconcileJobs(ctx, jobs, false)
}

// ReportIdle records that the worker requests jobs and says it holds none. If it should hold jobs, it has
// restarted, or a result didn't arrive. A job given to it within settleTime may not have arrived yet.
func (w *worker) ReportIdle(ctx context.Context) error {
	return w.reconcileJobs(ctx, nil, true)
}

// reconcileJobs puts the jobs that a worker has lost back into the queue. A job that the worker was told to
// stop and no longer names has stopped. A ping may have been sent up to settleTime before it arrived. A worker
// that requests jobs knows all its jobs except those given to it within settleTime.
func (w *worker) reconcileJobs(ctx context.Context, runningIDs []string, requestsJobs bool) error {
	w.mu.Lock()
	if slices.ContainsFunc(runningIDs, func(id string) bool { return w.jobs[id] == nil }) {
		w.mu.Unlock()
		return nil
	}
	now := w.pool.clock.Now()
	var lost, stoppedJobs []*heldJob
	for id, h := range w.jobs {
		if slices.Contains(runningIDs, id) || h.posts > 0 { // its result may be arriving
			h.missingSince = time.Time{}
			continue
		}
		h.missingSince = cmp.Or(h.missingSince, now)
		switch {
		case !h.stopSentAt.IsZero() && (requestsJobs || now.Sub(h.stopSentAt) >= settleTime):
			stoppedJobs = append(stoppedJobs, h)
		case now.Sub(h.missingSince) >= missGrace, requestsJobs && now.Sub(h.takenAt) >= settleTime:
			lost = append(lost, h)
		}
	}
	w.mu.Unlock()
	for _, h := range stoppedJobs {
		w.logJobEnd(ctx, h, outcomeStopped)
		w.drop(h)
	}
	for _, h := range lost {
		reason := w.lossWithoutResult(h.ref.ID)
		w.pool.logger.WarnContext(ctx, "a worker has lost a job: "+reason, "endpoint", w.pool.id, "worker", w.id, "job", h.ref.ID)
		w.markLost(h, true)
		if _, err := w.pool.queue.Report(ctx, h.ref, engine.Lost("its worker lost it: "+reason)); err != nil {
			w.markLost(h, false)
			return err
		}
		w.logJobEnd(ctx, h, engine.Lost("").Outcome())
		w.drop(h)
	}
	if len(lost) > 0 && !requestsJobs {
		w.watchRequests()
	}
	return nil
}

// watchRequests kills a worker that has lost a job unless it requests jobs: its program may hang while the
// process that pings goes on, and the next job would wait for it.
func (w *worker) watchRequests() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isReady() {
		return
	}
	w.watchers.Go(func() {
		if w.pool.clock.Sleep(w.life, requestGrace) != nil {
			return
		}
		w.mu.Lock()
		hangs := w.isReady() && len(w.jobs) == 0 && w.openTakes == 0 && w.pool.clock.Now().Sub(w.lastTakeEnd) >= requestGrace
		w.mu.Unlock()
		if hangs {
			reason := fmt.Sprintf("it lost a job, and has not asked for another within %s", requestGrace)
			w.pool.logger.Warn("a worker is killed: "+reason, "endpoint", w.pool.id, "worker", w.id)
			w.noteKill(reason)
			w.kill()
		}
	})
}

// lossWithoutResult explains why a worker's job is gone. SDKs only log an output that they can't send.
func (w *worker) lossWithoutResult(job string) string {
	const reason = "it no longer runs the job and sent no result: it restarted, or could not send the output"
	if logged := w.log.LastError(job); logged != "" {
		return reason + "; the last error in its log: " + logline.Shorten(logged, maxLastLine)
	}
	return reason + " (its log says why, for example that the output is not JSON)"
}

func (w *worker) markLost(h *heldJob, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.lost = lost
}

func (w *worker) Note(text string) { w.log.Note(text) }

// ReportUnhealthy records why the worker is unhealthy. It gets no more jobs, and is replaced after a pause.
func (w *worker) ReportUnhealthy(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.apply(workerFailed) { // already unhealthy, or shutting down
		return
	}
	w.reason = reason
	w.endTaking()
	w.watchers.Go(func() {
		if w.pool.clock.Sleep(w.life, stopGrace) == nil {
			w.kill()
		}
	})
}

var (
	// ErrNoWorker means that the endpoint has no pool here, or no worker with the id that uses the worker protocol.
	ErrNoWorker = errors.New("no such worker: it never existed, or it has ended")
	// ErrKey means that a request doesn't carry the worker's own key.
	ErrKey = errors.New("the key is not this worker's: send the RUNPOD_AI_API_KEY that it was started with")
)
