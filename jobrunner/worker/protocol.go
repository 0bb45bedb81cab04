package worker

import (
	"context"
	"crypto/subtle"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// What processes tell and ask by the worker protocol. Those that the jobrunner
// feeds itself have no part in it.

// Authorize returns ErrNoWorker, or ErrKey where the key is not the worker's.
func (p *Pools) Authorize(endpoint, worker, key string) error {
	w, err := p.find(endpoint, worker)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(key), []byte(w.key)) != 1 {
		return ErrKey
	}
	return nil
}

// find finds a worker that is a process, or about to be one.
func (p *Pools) find(endpoint, id string) (*worker, error) {
	one := p.pool(endpoint)
	if one == nil {
		return nil, ErrNoWorker
	}
	if w := one.find(func(w *worker) bool { return w.id == id && w.now().speaks }); w != nil {
		return w, nil
	}
	return nil, ErrNoWorker
}

// Take returns at most max jobs. It waits for the first until ctx ends, or the
// worker is to take no more: then there are none, and no error.
func (p *Pools) Take(ctx context.Context, endpoint, worker string, max int) ([]engine.Taken, error) {
	w, err := p.find(endpoint, worker)
	if err != nil {
		return nil, err
	}
	if !w.beginTake() {
		// The request waits: a worker that is told to leave, and gets an empty answer at
		// once, would ask again at once.
		select {
		case <-w.gone:
		case <-ctx.Done():
		}
		return nil, nil
	}
	defer w.takers.Done()
	askedAt, alone := w.pool.clock.Now(), w.empty()
	both, stop := context.WithCancel(w.taking)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	jobs, err := w.pool.queue.TakeOrWait(both, w.pool.take(w, max))
	if err != nil && both.Err() != nil {
		err = nil
	}
	w.mu.Lock()
	w.notePace(askedAt, len(jobs), alone)
	w.mu.Unlock()
	w.hold(jobs, w.watch)
	return jobs, err
}

// empty tells whether the worker has no job.
func (w *worker) empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs) == 0
}

// beginTake notes that the worker asks for a job; false: it is to have none.
func (w *worker) beginTake() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.takesJobs() {
		return false
	}
	w.apply(asked)
	w.takers.Add(1)
	return true
}

// watch watches over a job that the worker holds. The worker is locked.
func (w *worker) watch(h *held) {
	own, release := context.WithCancel(w.life)
	h.release = release
	w.watching.Go(func() {
		if !w.waitUntilRevoked(own, h.ref) {
			return
		}
		w.mu.Lock()
		h.revoked = true
		w.jobsChanged()
		w.mu.Unlock()
		if w.pool.clock.Sleep(own, stopGrace) == nil && w.recorded(own, h) {
			w.killUnresponsive(h.ref.ID)
		}
	})
}

// recorded waits until no result of a job is being recorded; false: ctx has
// ended, as it does with the job's end.
func (w *worker) recorded(ctx context.Context, h *held) bool {
	for {
		w.mu.Lock()
		busy, changed := h.results > 0, w.changed
		w.mu.Unlock()
		if !busy {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// wakeStops wakes the request that returns the jobs to stop, if an open post of this job
// held that off. The worker is locked.
func (w *worker) wakeStops(h *held) {
	if h.revoked {
		w.jobsChanged()
	}
}

// Posting says that the worker posts something about a job, which may be its
// result, until done is called: the job is not named among those to stop.
func (p *Pools) Posting(endpoint, worker, job string) (done func()) {
	w, err := p.find(endpoint, worker)
	if err != nil {
		return func() {}
	}
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
		h.posts--
		w.wakeStops(h)
	}
}

// Stops returns the ids of jobs that the worker should stop, each once. It waits
// for the first as Take does.
func (p *Pools) Stops(ctx context.Context, endpoint, worker string) ([]string, error) {
	w, err := p.find(endpoint, worker)
	if err != nil {
		return nil, err
	}
	var leaves <-chan struct{}
	if w.takesJobs() {
		leaves = w.taking.Done()
	}
	for {
		ids, changed := w.toStop()
		if len(ids) > 0 {
			return ids, nil
		}
		select {
		case <-changed:
		case <-leaves:
			return nil, nil
		case <-w.gone:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

func (w *worker) toStop() (ids []string, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, h := range w.jobs {
		if h.revoked && !h.lost && h.posts == 0 && h.results == 0 && h.toldAt.IsZero() {
			h.toldAt = w.pool.clock.Now()
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, w.changed
}

// Report says what came of a job. One that the worker does not hold changes
// nothing and is no error. With replace a fresh worker takes this one's place
// after the job.
func (p *Pools) Report(ctx context.Context, endpoint, worker, job string, r engine.Report, replace bool) error {
	w, err := p.find(endpoint, worker)
	if err != nil {
		return err
	}
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
	if err == nil && got == engine.Held {
		// A worker that is told that its result counts forgets it: not before the
		// result outlives this process.
		err = w.awaitDelivery(ctx, h.ref)
	}
	if err != nil {
		if r.Ends() {
			w.mu.Lock()
			defer w.mu.Unlock()
			h.results--
			w.wakeStops(h)
		}
		return err
	}
	if r.Result() && got == engine.Accepted {
		w.pool.backoff.jobDone(w.settings.Version)
	}
	if outcome := r.Outcome(); outcome != "" {
		if got == engine.Stale {
			outcome = stopped
		}
		w.logJobEnd(ctx, h, outcome)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h.missingSince = time.Time{} // it has the job
	if r.Ends() {
		if replace {
			w.endTaking()
		}
		h.results--
		w.remove(h)
	}
	return nil
}

// awaitDelivery waits until the database was told what a worker reported. An
// error has the worker report again.
func (w *worker) awaitDelivery(ctx context.Context, ref engine.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, deliveryPatience)
	defer cancel()
	return w.pool.queue.Delivered(ctx, ref)
}

// Ping tells which jobs a worker says it runs. It is no proof that they run: the process that
// pings may outlive the one that works. A held job that pings leave out for missGrace is
// lost. A ping that names a job which the worker doesn't hold is ignored: releases 1.7.12 to
// 1.9 of the public SDK name the jobs of all workers started in the same folder.
func (p *Pools) Ping(ctx context.Context, endpoint, worker string, jobs []string) error {
	return p.reconcileJobs(ctx, endpoint, worker, jobs, false)
}

// Idle says that the worker asks for jobs and holds none: it has started again, or a result
// didn't arrive. It may not know yet of a job that it was given less than settleTime ago.
func (p *Pools) Idle(ctx context.Context, endpoint, worker string) error {
	return p.reconcileJobs(ctx, endpoint, worker, nil, true)
}

// reconcileJobs returns the jobs that a worker has lost to the queue. A job that the worker
// was told to stop, and no longer names, has stopped; a ping may have been sent up to
// settleTime ago, before the worker had the job. A worker that asks for jobs knows all its
// jobs except one given within settleTime.
func (p *Pools) reconcileJobs(ctx context.Context, endpoint, worker string, has []string, asks bool) error {
	w, err := p.find(endpoint, worker)
	if err != nil {
		return err
	}
	w.mu.Lock()
	if slices.ContainsFunc(has, func(id string) bool { return w.jobs[id] == nil }) {
		w.mu.Unlock()
		return nil
	}
	now := w.pool.clock.Now()
	var lost, obeyed []*held
	for id, h := range w.jobs {
		if slices.Contains(has, id) {
			continue
		}
		if h.missingSince.IsZero() {
			h.missingSince = now
		}
		switch {
		case !h.toldAt.IsZero() && (asks || now.Sub(h.toldAt) >= settleTime):
			obeyed = append(obeyed, h)
		case now.Sub(h.missingSince) >= missGrace, asks && now.Sub(h.takenAt) >= settleTime:
			lost = append(lost, h)
		}
	}
	w.mu.Unlock()
	for _, h := range obeyed {
		w.logJobEnd(ctx, h, stopped)
		w.drop(h)
	}
	for _, h := range lost {
		w.pool.logger.WarnContext(ctx, "a worker has lost a job: "+requestWithoutResult, "endpoint", endpoint, "worker", worker, "job", h.ref.ID)
		w.markLost(h, true)
		if _, err := w.pool.queue.Report(ctx, h.ref, engine.LostBecause("its worker lost it: "+requestWithoutResult)); err != nil {
			w.markLost(h, false)
			return err
		}
		w.logJobEnd(ctx, h, engine.Lost().Outcome())
		w.drop(h)
	}
	return nil
}

// requestWithoutResult is what is known of a job that its worker does not have any more.
// SDKs swallow an output that they can't send.
const requestWithoutResult = "it asked for another job and sent no result: it restarted, or could not send the output (its log has why, for example that it is not JSON)"

func (w *worker) markLost(h *held, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.lost = lost
}

// Unhealthy says that the worker found itself unfit, and why. It gets no more
// jobs, and is replaced after a pause.
func (p *Pools) Unhealthy(_ context.Context, endpoint, worker, reason string) error {
	w, err := p.find(endpoint, worker)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.apply(failed) { // it is known, or it ends anyway
		return nil
	}
	w.reason = reason
	w.endTaking()
	w.watching.Go(func() {
		if w.pool.clock.Sleep(w.life, stopGrace) == nil {
			w.kill()
		}
	})
	return nil
}
