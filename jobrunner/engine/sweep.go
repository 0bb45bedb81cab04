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
	// The database file keeps this many unused pages of 4 KiB for reuse. After deleting
	// jobs, the sweeper returns up to maxReclaims × reclaimPages pages to the file system.
	keepPages    = 8192
	reclaimPages = 128
	maxReclaims  = 16

	retryAfterError = time.Second
	maxSweepPause   = 24 * time.Hour
)

// sweep calls Sweep whenever a job is due, until ctx ends.
func (e *Engine) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		// Until the next time is known, every due job wakes the sweeper.
		e.wakeAt.Store(math.MaxInt64)
		next, err := e.Sweep(ctx)
		now := e.clock.Now()
		switch {
		case err != nil && ctx.Err() == nil:
			if !sqldb.Temporary(err) {
				e.log.Error("sweeping jobs failed", "error", err)
			}
			next = now.Add(retryAfterError)
		case next.IsZero() || next.Sub(now) > maxSweepPause:
			next = now.Add(maxSweepPause)
		}
		e.wakeAt.Store(millis(next))
		timer := e.clock.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-e.sweepNow:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// wake wakes the sweeper if its next run is later than due.
func (e *Engine) wake(due int64) {
	if due > 0 && due < e.wakeAt.Load() {
		notify.Signal(e.sweepNow)
	}
}

// Sweep makes the transitions that are due. It deletes jobs whose ttl or retention is over, and
// times out jobs after their deadline. It returns the time of the next due transition, or zero.
//
// Reads and reports check the times themselves, so their results don't depend on Sweep. It
// frees space, wakes watches and stops workers.
func (e *Engine) Sweep(ctx context.Context) (next time.Time, err error) {
	for limit := e.newTxLimit(); ; {
		// Spooled reports were in time, so they come first.
		spooled := e.spool.total.Load()
		err := e.deliver(ctx)
		if err == nil && e.resumePending.Load() {
			if err := e.takeOver(ctx); err != nil {
				return time.Time{}, err
			}
			e.resumePending.Store(false)
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
		if err := e.sweepSome(ctx, spooled, &limit); err != nil && !errors.Is(err, errSpooled) {
			return time.Time{}, err
		}
	}
}

// nextDue returns the time of the next due transition, or zero.
func (e *Engine) nextDue(ctx context.Context) (next time.Time, err error) {
	earliest := int64(math.MaxInt64)
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		for _, query := range []string{nextGone, nextDeadline, nextBatch} {
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

// dueSteps are the steps of a sweep, in order. Each changes up to limit jobs.
var dueSteps = []func(tx *sqldb.Tx, now int64, limit int) ([]change, error){
	func(tx *sqldb.Tx, now int64, limit int) ([]change, error) {
		return remove(tx, deleteGone, now, limit)
	},
	func(tx *sqldb.Tx, now int64, limit int) ([]change, error) {
		return update(tx, TimedOut, timeOutDue, now, limit)
	},
}

// sweepSome runs each step once. It returns errSpooled if a report was spooled meanwhile.
func (e *Engine) sweepSome(ctx context.Context, spooled int64, limit *txLimit) error {
	var took time.Duration
	changes, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) (changes []change, err error) {
		if err := e.checkNothingSpooled(spooled); err != nil {
			return nil, err
		}
		now, begin := e.now(), time.Now()
		for _, step := range dueSteps {
			some, err := step(tx, now, limit.jobs)
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
	more := len(changes) >= limit.jobs
	for i := 0; i < maxReclaims && more && err == nil; i++ {
		more, err = e.db.Reclaim(ctx, keepPages, reclaimPages)
	}
	limit.adapt(len(changes), took)
	return err
}

// DropEndpoint deletes the jobs and batches of a deleted endpoint. Workers that run its
// jobs learn from their next report that they must stop.
func (e *Engine) DropEndpoint(ctx context.Context, endpoint string) error {
	for limit := e.newTxLimit(); ; {
		var gone []change
		var took time.Duration
		err := e.writeWithReserve(ctx, func(tx *sqldb.Tx) (err error) {
			tx.Note(droppedEndpoint(endpoint))
			begin := time.Now()
			gone, err = remove(tx, deleteOfEndpoint, endpoint, limit.jobs)
			took = time.Since(begin)
			return err
		})
		if err != nil {
			return err
		}
		e.apply(gone...)
		if len(gone) < limit.jobs {
			e.counts.forget(endpoint)
			return e.dropBatches(ctx, endpoint)
		}
		limit.adapt(len(gone), took)
	}
}

const (
	minTxJobs = 16
	maxTxJobs = 500

	txTarget = 3 * time.Millisecond
	// A sync.Mutex that a goroutine has waited for longer than a millisecond is handed from
	// waiter to waiter, each of which has to be scheduled first. Transactions in memory stay below that.
	txTargetInMemory = txTarget / 6
)

// txLimit limits how many jobs one transaction of a bulk change may change, so that each
// transaction takes about the target time and other writers don't wait for long.
type txLimit struct {
	jobs   int
	target time.Duration
}

func (e *Engine) newTxLimit() txLimit {
	if e.db.InMemory() {
		return txLimit{minTxJobs, txTargetInMemory}
	}
	return txLimit{minTxJobs, txTarget}
}

// adapt sets the limit of the next transaction, after n jobs took the time took. It at most
// doubles the limit.
func (l *txLimit) adapt(n int, took time.Duration) {
	fit := maxTxJobs
	if took > 0 {
		fit = int(min(int64(n)*int64(l.target)/int64(took), maxTxJobs))
	}
	l.jobs = max(minTxJobs, min(fit, 2*l.jobs))
}
