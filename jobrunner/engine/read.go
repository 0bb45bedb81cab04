package engine

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Get reads a job. It returns ErrNotFound if the job doesn't exist or has expired.
func (e *Engine) Get(ctx context.Context, endpoint, id string) (Job, error) {
	job, _, err := e.GetUpTo(ctx, endpoint, id, math.MaxInt32)
	return job, err
}

// GetUpTo is Get, but leaves out an output of more than maxOutput bytes. It returns the
// size of the output.
func (e *Engine) GetUpTo(ctx context.Context, endpoint, id string, maxOutput int) (Job, int, error) {
	job, size, overdue, err := e.read(ctx, endpoint, id, maxOutput)
	for err == nil && overdue {
		spooled := e.spool.total.Load()
		if sqldb.Classify(e.deliver(ctx)) == sqldb.Outage {
			return job, size, nil // IN_PROGRESS, because the spool may have its result
		}
		if err = e.expireOverdue(ctx, endpoint, id, spooled); err == nil {
			job, size, _, err = e.read(ctx, endpoint, id, maxOutput)
			break
		}
		if errors.Is(err, errSpooled) {
			err = nil
		}
	}
	return job, size, err
}

// read also reports whether the job is overdue: IN_PROGRESS after its deadline.
func (e *Engine) read(ctx context.Context, endpoint, id string, maxOutput int) (job Job, size int, overdue bool, err error) {
	job = Job{Endpoint: endpoint, ID: id}
	var queued, started, deadline, finished int64
	now := e.now()
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(selectJob, maxOutput, endpoint, id, now).Scan(&job.State, &queued, &started, &deadline, &finished, &job.Worker, &job.Retries, &job.Output, &size, &job.Error)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Job{}, 0, false, ErrNotFound
	}
	job.setTimes(queued, started, finished)
	return job, size, job.State == InProgress && deadline <= now, err
}

// setTimes sets Queued, Delay and Execution.
func (j *Job) setTimes(queued, started, finished int64) {
	j.Queued = fromMillis(queued)
	if started == 0 {
		return
	}
	// The clocks of machines that share a database may differ a little.
	j.Delay = max(0, duration(started-queued))
	if finished > 0 {
		j.Execution = max(0, duration(finished-started))
	}
}

// Recent reads up to 100 of an endpoint's jobs, the newest first. It leaves out outputs of
// more than 64 KiB.
func (e *Engine) Recent(ctx context.Context, endpoint string) ([]Job, error) {
	now := e.now()
	return readAll(ctx, e.db, func(rows sqldb.Rows) (job Job, err error) {
		err = job.scanListed(rows, now, &job.Output, &job.Error)
		return job, err
	}, recentJobs, maxRecentOutput, endpoint, now, maxRecent, endpoint, now, maxRecent, maxRecent)
}

// Latest reads the newest n jobs of an endpoint, or of all endpoints for "", the newest
// first. It leaves out outputs and truncates long errors.
func (e *Engine) Latest(ctx context.Context, endpoint string, n int) ([]Job, error) {
	now := e.now()
	query, args := latestJobs, []any{maxLatestError, now, n}
	if endpoint != "" {
		query, args = latestJobsOf, []any{maxLatestError, endpoint, now, n, endpoint, now, n, n}
	}
	return readAll(ctx, e.db, func(rows sqldb.Rows) (job Job, err error) {
		err = job.scanListed(rows, now, &job.Error)
		return job, err
	}, query, args...)
}

// scanListed scans the columns of lists of jobs, and then others.
func (j *Job) scanListed(rows sqldb.Rows, now int64, others ...any) error {
	var queued, started, deadline, finished int64
	err := rows.Scan(append([]any{&j.Endpoint, &j.ID, &j.State, &queued, &started, &deadline, &finished, &j.Worker, &j.Retries}, others...)...)
	if j.State == InProgress && deadline <= now { // the sweeper will record it
		j.State, finished = TimedOut, deadline
	}
	j.setTimes(queued, started, finished)
	return err
}

// expireOverdue times out a running job: IN_PROGRESS → TIMED_OUT. It returns errSpooled if
// a report was spooled meanwhile.
func (e *Engine) expireOverdue(ctx context.Context, endpoint, id string, spooled int64) error {
	_, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) ([]change, error) {
		if err := e.checkNothingSpooled(spooled); err != nil {
			return nil, err
		}
		now := e.now()
		return update(tx, TimedOut, timeOutJob, endpoint, id, now, now)
	})
	return err
}

// SetTTL sets a job's time to live, which counts from its submission. If it is over
// already, the job expires at once.
func (e *Engine) SetTTL(ctx context.Context, endpoint, id string, ttl time.Duration) error {
	ms, due := ttl.Milliseconds(), int64(0)
	err := e.write(ctx, func(tx *sqldb.Tx) error {
		return tx.QueryRow(updateTTL, ms, ms, ms, endpoint, id, e.now()).Scan(&due)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	if err == nil {
		e.wake(due)
	}
	return err
}
