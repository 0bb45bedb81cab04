package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// take takes the next jobs for a worker: IN_QUEUE → IN_PROGRESS.
func (e *Engine) take(tx *sqldb.Tx, t Take) (jobs []Taken, changes []change, err error) {
	now := e.now()
	u := unwrittenIn(tx)
	if u == nil {
		if err := e.writeOut(tx); err != nil {
			return nil, nil, err
		}
		return e.takeWritten(tx, t, now)
	}
	for len(jobs) < t.Max {
		if err := e.prefetch(tx, t); err != nil {
			if len(jobs) > 0 { // return these jobs; the next take returns the error
				break
			}
			return nil, nil, err
		}
		row := u.next(t, now)
		if row == nil {
			break
		}
		job, c := row.start(t, now)
		jobs, changes = append(jobs, job), append(changes, c)
	}
	return jobs, changes, nil
}

// takeWritten takes jobs from the table and updates their rows at once.
func (e *Engine) takeWritten(tx *sqldb.Tx, t Take, now int64) (jobs []Taken, changes []change, err error) {
	var keys []int64
	next, args := nextJobs, []any{now, cmp.Or(t.Timeout, DefaultTimeout).Milliseconds(), t.Endpoint, now}
	if t.Lead != (Lead{}) {
		next, args = nextJobsOfLead, append(args, EndpointOf(t.Endpoint), t.Lead.Process, t.Lead.Epoch)
	}
	args = append(args, t.Max)
	jobs, err = collect(tx, func(r sqldb.Rows) (job Taken, err error) {
		var k, queued, deadline, gone int64
		var low int
		job.Ref = Ref{Endpoint: t.Endpoint, Worker: t.Worker}
		err = r.Scan(&k, &job.ID, &low, &job.Attempt, &job.Retries, &queued, &deadline, &gone, &job.Input, &job.Rest)
		job.Low = low == 1
		job.Attempt++
		keys = append(keys, k)
		changes = append(changes, job.start(now, queued, deadline, gone))
		return job, err
	}, next, args...)
	if err != nil {
		return nil, nil, err
	}
	rows := rowWrites{}
	for i, job := range jobs {
		rows.add(startJob, job.Worker, e.Process(), job.Attempt, now, millis(job.Deadline), keys[i])
	}
	return jobs, changes, rows.run(tx)
}

// start sets the job's delay and deadline, and returns the change.
func (job *Taken) start(now, queued, deadline, gone int64) change {
	job.Delay, job.Deadline = max(0, duration(now-queued)), fromMillis(deadline)
	return change{endpoint: job.Endpoint, id: job.ID, low: job.Low, from: InQueue, to: InProgress, due: min(deadline, gone), delay: job.Delay}
}

// canTakeAhead reports whether a submission or a report may take jobs for a worker. It may
// not while the spool has entries, which may concern these jobs.
func (e *Engine) canTakeAhead() bool { return e.spool.pending.Load() == 0 }

// handoff carries jobs from the transaction that takes them to the taker. The jobs may
// arrive before the commit, so that a quick result is part of the same commit.
type handoff struct {
	to        chan []Taken // has a buffer of one
	committed bool         // send the jobs only after the commit
	sent      bool
	jobs      []Taken
}

func (h *handoff) send(jobs []Taken) {
	if !h.sent {
		h.sent, h.jobs = true, jobs
		h.to <- jobs
	}
}

// sendAhead sends the jobs as soon as the database allows it before the commit.
func (h *handoff) sendAhead(tx *sqldb.Tx, jobs []Taken) {
	if !h.committed {
		tx.AfterRun(func() { h.send(jobs) })
	}
}

// returnUnsent requeues jobs that a transaction took but did not send to the worker,
// because it ran again or its commit may have succeeded in spite of err. If a job was sent
// but the take was not committed, no worker has it: reports on it are Stale.
func (e *Engine) returnUnsent(h *handoff, taken []Taken, err error) {
	if err != nil && !sqldb.Temporary(err) {
		return
	}
	for _, job := range taken {
		if !slices.ContainsFunc(h.jobs, func(sent Taken) bool { return sent.Ref == job.Ref }) {
			_, _ = e.spool.add(record{Kind: jobReturn, Ref: job.Ref, At: e.now()}, content{}) // an empty entry always fits
		}
	}
}

// Take takes the next jobs for a worker: IN_QUEUE → IN_PROGRESS. If the queue is empty, it
// returns no jobs at once.
func (e *Engine) Take(ctx context.Context, t Take) ([]Taken, error) {
	// Jobs that may have been taken for this worker before are returned first.
	if err := e.deliver(ctx); sqldb.Classify(err) == sqldb.Outage {
		return nil, err
	}
	var jobs []Taken
	_, err := e.transition(ctx, e.db.WriteBehind, func(tx *sqldb.Tx) (changes []change, err error) {
		jobs, changes, err = e.take(tx, t)
		return changes, err
	})
	if err != nil {
		e.returnUnsent(&handoff{}, jobs, err)
		return nil, err
	}
	return jobs, nil
}

// TakeOrWait is Take, but waits for a job until ctx ends. The longest waiting caller gets
// the next job.
func (e *Engine) TakeOrWait(ctx context.Context, t Take) ([]Taken, error) {
	taker := e.NewTaker()
	defer taker.Close()
	t.committed = e.db.Shared() // the worker may report through another process
	return taker.Take(ctx, t)
}

// Taker takes jobs and reports on them for one worker. It makes a report and the next take
// in one transaction. It is not safe for concurrent use.
type Taker struct {
	engine *Engine
	waiter *waiter // in the line of its endpoint, or nil
	// reports passes reports to idle goroutines. A new goroutine for each report would have
	// to grow its stack again.
	reports chan func()
}

// NewTaker returns a Taker, on which the caller must call Close.
func (e *Engine) NewTaker() *Taker { return &Taker{engine: e} }

// Close leaves the line. It doesn't wait for reports in progress.
func (t *Taker) Close() {
	t.leave()
	if t.reports != nil {
		close(t.reports)
		t.reports = nil
	}
}

func (t *Taker) leave() {
	if t.waiter != nil {
		t.engine.hub.leave(t.waiter)
		t.waiter = nil
	}
}

// Take waits for jobs until ctx ends.
func (t *Taker) Take(ctx context.Context, next Take) (jobs []Taken, err error) {
	hub := &t.engine.hub
	for woken := false; ; woken = true {
		if t.waiter == nil || !hub.isWaiting(t.waiter, next) {
			t.leave()
			t.waiter = hub.enter(next)
			jobs, err = t.engine.Take(ctx, next)
		}
		if len(jobs) == 0 && err == nil {
			if jobs, err = t.wait(ctx); len(jobs) == 0 && err == nil {
				continue
			}
			woken = woken && err == nil
		}
		t.leave()
		if err != nil && woken { // another taker can have the job that woke this one
			hub.wake(next.Endpoint)
		}
		return jobs, err
	}
}

// wait waits in the line until a submission has taken jobs for this taker, or until the
// taker is woken: then it returns no jobs.
func (t *Taker) wait(ctx context.Context) ([]Taken, error) {
	w := t.waiter
	t.engine.hub.setReady(w)
	select {
	case <-w.woken:
		return nil, nil
	case jobs := <-w.assigned:
		return jobs, nil
	case <-ctx.Done():
	}
	t.waiter = nil
	if t.engine.hub.leave(w) { // a submission is taking a job for this taker
		if jobs := <-w.assigned; len(jobs) > 0 {
			return jobs, nil
		}
	}
	return nil, ctx.Err()
}

// Report is Engine.Report, but also takes the next jobs and returns as soon as they are
// known. It calls recorded with the result of the report, perhaps later and from another
// goroutine. If Report returns no jobs, it has called recorded.
func (t *Taker) Report(ctx context.Context, ref Ref, r Report, next Take, recorded func(Directive, error)) []Taken {
	t.leave()
	t.waiter = t.engine.hub.enter(next)
	h := &handoff{to: make(chan []Taken, 1)}
	t.inBackground(func() {
		recorded(t.engine.reportAndTake(ctx, ref, r, next, h))
		h.send(nil)
	})
	jobs := <-h.to
	if jobs == nil || len(jobs) > 0 { // no take was tried, or it took jobs
		t.leave()
	}
	return jobs
}

// inBackground runs a report without waiting for its commit, so that several reports of a
// worker can share one commit.
func (t *Taker) inBackground(report func()) {
	if t.engine.db.InMemory() {
		report()
		return
	}
	if t.reports == nil {
		t.reports = make(chan func())
	}
	select {
	case t.reports <- report:
	default:
		go func(next <-chan func()) {
			report()
			for report := range next {
				report()
			}
		}(t.reports)
	}
}
