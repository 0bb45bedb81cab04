package engine

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Take hands the jobs that are next to a worker: IN_QUEUE → IN_PROGRESS. It
// does not wait; an empty queue answers none.
func (e *Engine) Take(ctx context.Context, t Take) ([]Taken, error) {
	type row struct {
		Taken
		turn, k int64
		change  change
	}
	var rows []row
	err := e.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
		now := e.now()
		var lease int64
		if t.Lease > 0 {
			lease = now + t.Lease.Milliseconds()
		}
		rows, err = collect(tx, func(r *sql.Rows) (job row, err error) {
			var low int
			var queued, deadline, gone int64
			job.Ref = Ref{Endpoint: t.Endpoint, Worker: t.Worker}
			err = r.Scan(&job.ID, &low, &job.turn, &job.k, &job.Attempt, &job.Retries, &queued, &deadline, &gone, &job.Input, &job.Rest)
			job.Low, job.Delay, job.Deadline = low == 1, duration(now-queued), fromMillis(deadline)
			job.change = change{endpoint: t.Endpoint, id: job.ID, low: job.Low, from: InQueue, to: InProgress, due: min(deadline, gone), delay: job.Delay}
			if lease > 0 {
				job.change.due = min(job.change.due, lease)
			}
			return job, err
		}, taken, t.Worker, e.process, now, now, cmp.Or(t.Timeout, DefaultTimeout).Milliseconds(), lease, t.Endpoint, now, t.Max)
		for i := range rows {
			if r := &rows[i]; err == nil && r.Input == nil {
				err = tx.QueryRow(largeInput, r.k).Scan(&r.Input)
			}
		}
		return err
	})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	// The statement answers its rows in no order.
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.k, b.k)) })
	jobs, changes := make([]Taken, len(rows)), make([]change, len(rows))
	for i, r := range rows {
		jobs[i], changes[i] = r.Taken, r.change
	}
	e.apply(changes...)
	return jobs, nil
}

// TakeOrWait is Take that waits for a job until ctx ends, whose error it then
// answers. Who waits longest is served first.
func (e *Engine) TakeOrWait(ctx context.Context, t Take) ([]Taken, error) {
	for woken := false; ; woken = true {
		place := e.hub.await(t.Endpoint)
		jobs, err := e.Take(ctx, t)
		if len(jobs) == 0 && err == nil {
			select {
			case <-place.c:
				continue
			case <-ctx.Done():
				err, woken = ctx.Err(), false
			}
		}
		e.hub.leave(t.Endpoint, place)
		if err != nil && woken { // the job that it was woken for is still there
			e.hub.wake(t.Endpoint)
		}
		return jobs, err
	}
}
