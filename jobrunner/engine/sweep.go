package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

const (
	// The database file keeps this many unused pages of 4 KiB for reuse. After deleting
	// jobs, the sweeper returns up to reclaimPages pages to the file system at a time.
	keepPages    = 8192
	reclaimPages = 128

	retryAfterError = time.Second
	maxSweepPause   = 24 * time.Hour
)

// sweep calls Sweep whenever a job is due, until ctx ends.
func (e *Engine) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		e.wakeAt.Store(never)
		next, err := e.Sweep(ctx)
		now := e.Clock.Now()
		pause := maxSweepPause
		if err != nil && ctx.Err() == nil {
			if !sqldb.Temporary(err) {
				e.Logger.Error("sweeping jobs failed", "error", err)
			}
			next, pause = never, retryAfterError
		}
		select { // a signal that wake sent during Sweep isn't needed: the timer uses the wakeAt that wake lowered
		case <-e.sweepNow:
		default:
		}
		lower(&e.wakeAt, min(next, now.Add(pause).UnixMilli()))
		timer := e.Clock.NewTimer(time.UnixMilli(e.wakeAt.Load()).Sub(now))
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
	if lower(&e.wakeAt, due) {
		notify.Signal(e.sweepNow)
	}
}

// lower lowers a value unless it is lower already, and reports whether it was higher.
func lower(value *atomic.Int64, to int64) (wasHigher bool) {
	for {
		if now := value.Load(); now <= to || value.CompareAndSwap(now, to) {
			return now > to
		}
	}
}

// Sweep makes the transitions that are due. It deletes jobs whose ttl or retention is over,
// and times out jobs after their deadline. It returns the time of the next due transition in
// milliseconds since 1970, or math.MaxInt64.
//
// Reads and reports check the times themselves, so their results don't depend on Sweep. Sweep
// frees space, wakes watches and stops workers.
func (e *Engine) Sweep(ctx context.Context) (next int64, err error) {
	now := e.now()
	next = never
	for _, q := range e.loadedQueues() {
		for ticks := maxSlice; ticks == maxSlice && q.lockIfOpen(); {
			next = min(next, q.reconcileBatches()) // first, so that a batch that ends cancels its requests before they time out
			for ticks = 0; ticks < maxSlice && q.timed.Len() > 0 && q.timed.first().due() <= now; ticks++ {
				q.tick(q.timed.first())
			}
			if first := q.timed.first(); first != nil {
				next = min(next, first.due())
			}
			q.unlock()
		}
	}
	if e.store == nil {
		return next, nil
	}
	expiry, err := e.deleteExpiredJobs(ctx, now)
	return min(next, expiry), err
}

// deleteExpiredJobs deletes the stored jobs that have expired, and returns when the next job expires, or never.
func (e *Engine) deleteExpiredJobs(ctx context.Context, now int64) (next int64, err error) {
	// Store pending changes first: they may postpone the expiry of a job.
	if err := e.commits.flushUnlessDiskFull(); err != nil {
		return 0, err
	}
	process := e.Process()
	for {
		err := e.DB.Read(ctx, func(r *sqldb.Reader) error { return r.QueryRow(nextExpiry, process, process).Scan(&next) })
		if err != nil || next > now {
			return next, err
		}
		if _, err := e.store.deleteJobs(ctx, deleteExpired, now, process, process, maxSlice); err != nil {
			return 0, err
		}
		e.commits.signal()
		if err := e.DB.Reclaim(ctx, keepPages, reclaimPages); err != nil {
			return 0, err
		}
	}
}
