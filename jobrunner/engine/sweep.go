package engine

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

const (
	// What the file keeps of its unused pages (of 4 KiB), to use them again, how many
	// it gives back at a time, and how often after a transaction that deleted jobs.
	keepPages    = 8192
	reclaimPages = 128
	reclaims     = 16

	retryAfterError = time.Second
	farAway         = 24 * time.Hour
)

// sweep looks after what time does to jobs, when it does it.
func (e *Engine) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		// Whatever is due before the new time is known wakes the sweeper again.
		e.wakeAt.Store(math.MaxInt64)
		next, err := e.Sweep(ctx)
		now := e.clock.Now()
		switch {
		case err != nil && ctx.Err() == nil:
			if !sqldb.Temporary(err) {
				e.log.Error("looking after jobs whose time is over", "error", err)
			}
			next = now.Add(retryAfterError)
		case next.IsZero() || next.Sub(now) > farAway:
			next = now.Add(farAway)
		}
		e.wakeAt.Store(millis(next))
		timer := e.clock.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-e.poke:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// wake lets the sweeper look at a time, should it mean to sleep longer.
func (e *Engine) wake(due int64) {
	if due > 0 && due < e.wakeAt.Load() {
		notify.Signal(e.poke)
	}
}

// Sweep does what time has done by now: jobs whose ttl or retention is over
// are deleted, running ones whose execution time is over are TIMED_OUT, those
// whose worker gave no sign of life go back to the queue or have FAILED. It
// answers when it is needed next, zero for not before something else happens.
//
// Every read of a job and every report counts with the time by itself; Sweep
// makes room, wakes those who wait and stops workers.
func (e *Engine) Sweep(ctx context.Context) (next time.Time, err error) {
	for part := e.newSlice(); ; {
		// What workers reported in time counts although the time is over by now.
		kept := e.spool.kept.Load()
		err := e.deliver(ctx)
		if err == nil && e.resumes.Load() {
			if err := e.takeOver(ctx); err != nil {
				return time.Time{}, err
			}
			e.resumes.Store(false)
		}
		if sqldb.Classify(err) == sqldb.Outage {
			return time.Time{}, err
		}
		next, err = e.nextDue(ctx)
		if err != nil || next.IsZero() || next.After(e.clock.Now()) {
			return next, err
		}
		if err := e.settleBatches(ctx); err != nil {
			return time.Time{}, err
		}
		if err := e.sweepSome(ctx, kept, &part); err != nil && !errors.Is(err, errSpooled) {
			return time.Time{}, err
		}
	}
}

func (e *Engine) nextDue(ctx context.Context) (next time.Time, err error) {
	earliest := int64(math.MaxInt64)
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		for _, query := range []string{nextGone, nextDeadline, nextLease, nextBatch} {
			var at sql.NullInt64
			if err := r.QueryRow(query).Scan(&at); err != nil {
				return err
			}
			if at.Valid {
				earliest = min(earliest, at.Int64)
			}
		}
		return nil
	})
	if err != nil || earliest == math.MaxInt64 {
		return time.Time{}, err
	}
	return fromMillis(earliest), nil
}

// dueSteps are what time does to jobs, in the order in which it is done.
var dueSteps = []func(tx *sqldb.Tx, now int64, most int) ([]change, error){
	func(tx *sqldb.Tx, now int64, most int) ([]change, error) {
		return remove(tx, deleteGone, now, most)
	},
	func(tx *sqldb.Tx, now int64, most int) ([]change, error) {
		return update(tx, TimedOut, timeOutDue, now, most)
	},
	func(tx *sqldb.Tx, now int64, most int) ([]change, error) {
		again, err := update(tx, InQueue, requeueExpired, now, maxRetries, now, most)
		return again, errors.Join(err, requeue(tx, again))
	},
	func(tx *sqldb.Tx, now int64, most int) ([]change, error) {
		over, err := update(tx, Failed, failExpired, now, now, maxRetries, now, most)
		return over, errors.Join(err, setLostError(tx, over, now, ""))
	},
}

// sweepSome does a part of what is due, unless more was kept.
func (e *Engine) sweepSome(ctx context.Context, kept int64, part *slice) error {
	var took time.Duration
	changes, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) (changes []change, err error) {
		if err := e.checkNothingSpooled(kept); err != nil {
			return nil, err
		}
		now, begin := e.now(), time.Now()
		for _, step := range dueSteps {
			some, err := step(tx, now, part.jobs)
			if err != nil {
				return nil, err
			}
			changes = append(changes, some...)
		}
		took = time.Since(begin)
		return changes, nil
	})
	if err != nil {
		return err
	}
	more := len(changes) >= part.jobs
	for i := 0; i < reclaims && more && err == nil; i++ {
		more, err = e.db.Reclaim(ctx, keepPages, reclaimPages)
	}
	part.adapt(len(changes), took)
	return err
}

// DropEndpoint deletes everything of an endpoint that is gone itself. Workers
// that run its jobs are told to stop.
func (e *Engine) DropEndpoint(ctx context.Context, endpoint string) error {
	for part := e.newSlice(); ; {
		var gone []change
		var took time.Duration
		err := e.writeWithReserve(ctx, func(tx *sqldb.Tx) (err error) {
			tx.Note(droppedEndpoint(endpoint))
			begin := time.Now()
			gone, err = remove(tx, deleteOfEndpoint, endpoint, part.jobs)
			took = time.Since(begin)
			return err
		})
		if err != nil {
			return err
		}
		e.apply(gone...)
		if len(gone) < part.jobs {
			e.counts.forget(endpoint)
			return e.dropBatches(ctx, endpoint)
		}
		part.adapt(len(gone), took)
	}
}
