package engine

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Get reads a job: ErrNotFound where there is none, or none any more.
func (e *Engine) Get(ctx context.Context, endpoint, id string) (Job, error) {
	job, _, err := e.GetUpTo(ctx, endpoint, id, math.MaxInt32)
	return job, err
}

// GetUpTo is Get that leaves an output out which is larger than most bytes, and
// tells its size.
func (e *Engine) GetUpTo(ctx context.Context, endpoint, id string, most int) (Job, int, error) {
	job, size, overdue, err := e.read(ctx, endpoint, id, most)
	for err == nil && overdue {
		kept := e.spool.kept.Load()
		if sqldb.Classify(e.deliver(ctx)) == sqldb.Outage {
			return job, size, nil // as it stood: what its worker said may be on its way
		}
		if err = e.expireOverdue(ctx, endpoint, id, kept); err == nil {
			job, size, _, err = e.read(ctx, endpoint, id, most)
			break
		}
		if errors.Is(err, errSpooled) {
			err = nil
		}
	}
	return job, size, err
}

// read also tells that the job's execution time is over and nobody has noted
// it yet.
func (e *Engine) read(ctx context.Context, endpoint, id string, most int) (job Job, size int, overdue bool, err error) {
	job = Job{Endpoint: endpoint, ID: id}
	var queued, started, deadline, finished int64
	now := e.now()
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(selectJob, most, endpoint, id, now).Scan(&job.State, &queued, &started, &deadline, &finished, &job.Worker, &job.Retries, &job.Output, &size, &job.Error)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Job{}, 0, false, ErrNotFound
	}
	job.times(queued, started, finished)
	return job, size, job.State == InProgress && deadline <= now, err
}

func (j *Job) times(queued, started, finished int64) {
	j.Queued = fromMillis(queued)
	if started == 0 {
		return
	}
	// Machines that share a database may differ a little in their time.
	j.Delay = max(0, duration(started-queued))
	if finished > 0 {
		j.Execution = max(0, duration(finished-started))
	}
}

// Recent reads an endpoint's jobs, the newest first, 100 at most. An output of
// more than 64 KB is left out.
func (e *Engine) Recent(ctx context.Context, endpoint string) (jobs []Job, err error) {
	now := e.now()
	err = e.db.Read(ctx, func(r *sqldb.Reader) (err error) {
		jobs, err = collect(r, func(rows sqldb.Rows) (Job, error) {
			job := Job{Endpoint: endpoint}
			var queued, started, deadline, finished int64
			err := rows.Scan(&job.ID, &job.State, &queued, &started, &deadline, &finished, &job.Worker, &job.Retries, &job.Output, &job.Error)
			if job.State == InProgress && deadline <= now { // nobody has noted it yet
				job.State, finished = TimedOut, deadline
			}
			job.times(queued, started, finished)
			return job, err
		}, recentJobs, maxRecentOutput, endpoint, now, maxRecent, endpoint, now, maxRecent, maxRecent)
		return err
	})
	return jobs, err
}

// Latest reads the newest n jobs, the newest first: of an endpoint, or of all
// for "". Outputs are left out; long errors are cut.
func (e *Engine) Latest(ctx context.Context, endpoint string, n int) (jobs []Job, err error) {
	now := e.now()
	query, args := latestJobs, []any{maxLatestError, now, n}
	if endpoint != "" {
		query, args = latestJobsOf, []any{maxLatestError, endpoint, now, n, endpoint, now, n, n}
	}
	err = e.db.Read(ctx, func(r *sqldb.Reader) (err error) {
		jobs, err = collect(r, func(rows sqldb.Rows) (job Job, err error) {
			var queued, started, deadline, finished int64
			err = rows.Scan(&job.Endpoint, &job.ID, &job.State, &queued, &started, &deadline, &finished, &job.Worker, &job.Retries, &job.Error)
			if job.State == InProgress && deadline <= now { // nobody has noted it yet
				job.State, finished = TimedOut, deadline
			}
			job.times(queued, started, finished)
			return job, err
		}, query, args...)
		return err
	})
	return jobs, err
}

// expireOverdue notes that a running job's time is over, unless more was kept:
// IN_PROGRESS → TIMED_OUT.
func (e *Engine) expireOverdue(ctx context.Context, endpoint, id string, kept int64) error {
	_, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) ([]change, error) {
		if err := e.checkNothingSpooled(kept); err != nil {
			return nil, err
		}
		now := e.now()
		return update(tx, TimedOut, timeOutJob, endpoint, id, now, now)
	})
	return err
}

// SetTTL sets a job's whole time to live, which counts from its submission.
// One that is over already deletes the job at once.
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
