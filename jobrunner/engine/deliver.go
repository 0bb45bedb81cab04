package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// The backoff between delivery attempts. It is real time, because a database's outage has
// nothing to do with the engine's clock.
const (
	minDeliveryPause = 50 * time.Millisecond
	maxDeliveryPause = time.Second
)

// delivery serializes the deliveries of spooled entries to the database.
type delivery struct {
	mu     sync.Mutex
	failed time.Time // the last failed attempt
	err    error     // its error
}

// errSpooled rolls back a transaction because a report was spooled while the transaction
// waited for the database.
var errSpooled = errors.New("a report was spooled meanwhile")

// checkNothingSpooled returns errSpooled if an entry was spooled since the spool's
// total was read.
func (e *Engine) checkNothingSpooled(total int64) error {
	if e.spool.total.Load() != total {
		return errSpooled
	}
	return nil
}

// deliverAll delivers spooled entries until ctx ends.
func (e *Engine) deliverAll(ctx context.Context) {
	for {
		select {
		case <-e.spool.added:
		case <-ctx.Done():
			return
		}
		for pause := minDeliveryPause; e.spool.pending.Load() > 0; pause = min(2*pause, maxDeliveryPause) {
			if clock.RealSleep(ctx, pause) != nil {
				return
			}
			_ = e.deliver(ctx) // sqldb logs outages
		}
		if e.resumePending.Load() {
			notify.Signal(e.sweepNow)
		}
	}
}

// deliver writes the spooled entries to the database. It must precede transitions that
// could conflict with spooled reports: timeouts, takes, and the requeueing of a dead
// process's jobs. On an Outage it stops and the caller must stop, too. If the disk is
// Full, it goes on with the other jobs, and the caller may do what frees space.
func (e *Engine) deliver(ctx context.Context) error {
	if e.spool.pending.Load() == 0 {
		return nil
	}
	d := &e.delivery
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.failed) < minDeliveryPause {
		return d.err
	}
	var full error
	stuck := map[Ref]bool{} // jobs whose next report doesn't fit on the disk
	for _, one := range e.spool.all() {
		if stuck[one.Ref] {
			continue
		}
		switch err := e.deliverOne(ctx, one); sqldb.Classify(err) {
		case sqldb.Outage, sqldb.Closed:
			d.failed, d.err = time.Now(), err
			return err
		case sqldb.Full:
			full = err
			stuck[one.Ref] = one.Kind != callOutcome
		default:
			if err != nil {
				if ctx.Err() != nil {
					return err
				}
				e.log.Error("a spooled report can't be delivered", "job", one.Ref.ID, "endpoint", one.Ref.Endpoint, "error", err)
			}
			e.spool.finish(one)
		}
	}
	if full != nil {
		d.failed, d.err = time.Now(), full
	}
	return full
}

func (e *Engine) deliverOne(ctx context.Context, one *entry) error {
	c, err := e.spool.read(one)
	if err != nil {
		return fmt.Errorf("reading it from the data folder: %w", err)
	}
	at := min(one.At, e.now()) // the clock may have been set back
	switch one.Kind {
	case jobReturn:
		return e.returnJob(ctx, one.Ref, at)
	case callOutcome:
		return e.recordCall(ctx, c.K, c.Until, c.Again)
	}
	directive, streamed, err := e.report(ctx, one.Ref, c.report(one.Report), at, one.Streamed, Take{}, nil)
	if err == nil && directive == Stale {
		// An earlier attempt may have been committed without a reply, and so without
		// notifications.
		e.hub.changed(change{endpoint: one.Ref.Endpoint, id: one.Ref.ID})
		notify.Signal(e.calls)
	}
	if streamed > 0 {
		one.Streamed = streamed
	}
	return err
}

// Return requeues a job that its worker can't continue. It counts no retry. If the database
// is unavailable, the return is spooled.
func (e *Engine) Return(ctx context.Context, ref Ref) error {
	if !e.spool.has(ref) {
		if err := e.returnJob(ctx, ref, e.now()); !sqldb.Temporary(err) {
			return err
		}
	}
	_, err := e.spool.add(record{Kind: jobReturn, Ref: ref, At: e.now()}, content{})
	return err
}

// returnJob requeues a job that may have been taken but not delivered to its worker:
// IN_PROGRESS → IN_QUEUE.
func (e *Engine) returnJob(ctx context.Context, ref Ref, at int64) error {
	_, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) ([]change, error) {
		// The transaction that took the job may still be in progress.
		if _, err := tx.Exec(lockJob, ref.Endpoint, ref.ID); err != nil {
			return nil, err
		}
		return update(tx, InQueue, returnHeld, e.now(), ref.Endpoint, ref.ID, at, ref.Worker, ref.Attempt, at)
	})
	return err
}

// Delivered waits until the spool has no reports of a job. It returns sqldb.ErrUnavailable
// if ctx ends first.
func (e *Engine) Delivered(ctx context.Context, ref Ref) error {
	for {
		e.spool.mu.Lock()
		last := e.spool.last(ref)
		e.spool.mu.Unlock()
		if last == nil {
			return nil
		}
		select {
		case <-last.done:
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", sqldb.ErrUnavailable, ctx.Err())
		}
	}
}
