package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// take hands the jobs that are next to a worker: IN_QUEUE → IN_PROGRESS.
func (e *Engine) take(tx *sqldb.Tx, t Take) (jobs []Taken, changes []change, err error) {
	now := e.now()
	var lease int64
	if t.Lease > 0 {
		lease = now + t.Lease.Milliseconds()
	}
	u := unwrittenIn(tx)
	if u == nil {
		if err := e.writeOut(tx); err != nil {
			return nil, nil, err
		}
		return e.takeWritten(tx, t, now, lease)
	}
	for len(jobs) < t.Max {
		if err := u.look(tx, t, now); err != nil {
			if len(jobs) > 0 { // they are the worker's; who takes next meets the error
				break
			}
			return nil, nil, err
		}
		row := u.next(t, now)
		if row == nil {
			break
		}
		job, c := row.start(t, now, lease)
		jobs, changes = append(jobs, job), append(changes, c)
	}
	return jobs, changes, nil
}

// lookForNext looks for the job that take then takes, which can't fail any more where
// jobs are unwritten.
func (e *Engine) lookForNext(tx *sqldb.Tx, t Take) error {
	if u := unwrittenIn(tx); u != nil {
		return u.look(tx, t, e.now())
	}
	return nil
}

// takeWritten takes jobs that are in the table, and writes that at once.
func (e *Engine) takeWritten(tx *sqldb.Tx, t Take, now, lease int64) (jobs []Taken, changes []change, err error) {
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
		changes = append(changes, job.start(now, queued, deadline, gone, lease))
		return job, err
	}, next, args...)
	if err != nil {
		return nil, nil, err
	}
	rows := rowWrites{}
	for i, job := range jobs {
		rows.add(startJob, job.Worker, e.processID(), job.Attempt, now, millis(job.Deadline), lease, keys[i])
	}
	return jobs, changes, rows.run(tx)
}

// start says when a job that is taken has to be over, and what the take changes.
func (job *Taken) start(now, queued, deadline, gone, lease int64) change {
	job.Delay, job.Deadline = max(0, duration(now-queued)), fromMillis(deadline)
	due := min(deadline, gone)
	if lease > 0 {
		due = min(due, lease)
	}
	return change{endpoint: job.Endpoint, id: job.ID, low: job.Low, from: InQueue, to: InProgress, due: due, delay: job.Delay}
}

// canTake tells whether a submission or a report may take jobs for a worker: no job
// that may have been dispatched before waits in the spool.
func (e *Engine) canTake() bool { return e.spool.pending.Load() == 0 }

// handoff carries jobs from the transaction that takes them to the taker. They
// arrive as soon as they are taken, which may be ahead of the commit: a report of
// them is then in the same commit.
type handoff struct {
	to   chan []Taken // with room for one
	late bool         // the jobs wait for the commit
	sent bool
	jobs []Taken
}

func (h *handoff) send(jobs []Taken) {
	if !h.sent {
		h.sent, h.jobs = true, jobs
		h.to <- jobs
	}
}

// sendAhead sends the jobs as soon as the database allows.
func (h *handoff) sendAhead(tx *sqldb.Tx, jobs []Taken) {
	if !h.late {
		tx.Ahead(func() { h.send(jobs) })
	}
}

// returnUnsent puts back into the queue what a transaction took and did not send,
// since it ran more than once, or its commit may have been done in spite of err.
// What was sent and is not taken in the end belongs to nobody: a report of it is
// Stale.
func (e *Engine) returnUnsent(h *handoff, taken []Taken, err error) {
	if err != nil && !sqldb.Temporary(err) {
		return
	}
	for _, job := range taken {
		if !slices.ContainsFunc(h.jobs, func(sent Taken) bool { return sent.Ref == job.Ref }) {
			_, _ = e.spool.keep(record{Kind: jobReturn, Ref: job.Ref, At: e.now()}, content{}) // of nothing, for which there is room
		}
	}
}

// Take hands the jobs that are next to a worker: IN_QUEUE → IN_PROGRESS. It
// does not wait; an empty queue answers none.
func (e *Engine) Take(ctx context.Context, t Take) ([]Taken, error) {
	// What may have been handed out to this worker before is settled first.
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

// TakeOrWait is Take that waits for a job until ctx ends, whose error it then
// answers. Who waits longest is served first.
func (e *Engine) TakeOrWait(ctx context.Context, t Take) ([]Taken, error) {
	taker := e.NewTaker()
	defer taker.Close()
	t.committed = e.db.Shared() // the worker may report through another process
	return taker.Take(ctx, t)
}

// Taker takes jobs for one worker, which reports on them by it, too: a report
// and the next take are one transaction. Its methods belong to one goroutine.
type Taker struct {
	engine *Engine
	place  *place // in the line of those who wait; nil for none
	// reports go to the goroutines of earlier ones that are idle: a new one for each
	// job would grow its stack anew.
	reports chan func()
}

// NewTaker makes one, which is closed by Close.
func (e *Engine) NewTaker() *Taker { return &Taker{engine: e} }

// Close gives up the place in the line. Reports under way go on.
func (t *Taker) Close() {
	t.leave()
	if t.reports != nil {
		close(t.reports)
		t.reports = nil
	}
}

// leave gives up the place in the line.
func (t *Taker) leave() {
	if t.place != nil {
		t.engine.hub.leave(t.place)
		t.place = nil
	}
}

// Take waits for jobs until ctx ends, whose error it then answers.
func (t *Taker) Take(ctx context.Context, next Take) (jobs []Taken, err error) {
	hub := &t.engine.hub
	for woken := false; ; woken = true {
		if t.place == nil || !hub.isInLine(t.place, next) {
			t.leave()
			t.place = hub.enter(next)
			jobs, err = t.engine.Take(ctx, next)
		}
		if len(jobs) == 0 && err == nil {
			if jobs, err = t.wait(ctx); len(jobs) == 0 && err == nil {
				continue
			}
			woken = woken && err == nil
		}
		t.leave()
		if err != nil && woken { // the job that it was woken for is still there
			hub.wake(next.Endpoint)
		}
		return jobs, err
	}
}

// wait waits in the line for jobs, or for a hint that there are some: then
// none are answered.
func (t *Taker) wait(ctx context.Context) ([]Taken, error) {
	place := t.place
	t.engine.hub.ready(place)
	select {
	case <-place.woken:
		return nil, nil
	case jobs := <-place.assigned:
		return jobs, nil
	case <-ctx.Done():
	}
	t.place = nil
	if t.engine.hub.leave(place) { // a submission takes a job for it at this moment
		if jobs := <-place.assigned; len(jobs) > 0 {
			return jobs, nil
		}
	}
	return nil, ctx.Err()
}

// Report is Engine.Report, and takes jobs that are next where there are some. It
// answers as soon as these are known: recorded is called with what came of the report,
// maybe from another goroutine, and before Report answers where it took none.
func (t *Taker) Report(ctx context.Context, ref Ref, r Report, next Take, recorded func(Directive, error)) []Taken {
	t.leave()
	t.place = t.engine.hub.enter(next)
	h := &handoff{to: make(chan []Taken, 1)}
	t.inBackground(func() {
		recorded(t.engine.reportAndTake(ctx, ref, r, next, h))
		h.send(nil)
	})
	jobs := <-h.to
	if jobs == nil || len(jobs) > 0 { // it has not looked, or does not wait
		t.leave()
	}
	return jobs
}

// inBackground runs a report, whose commit may take its time. As many run at a time as
// share one.
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
