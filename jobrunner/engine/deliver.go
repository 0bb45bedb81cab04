package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// The pause between two attempts to deliver, in real time, which is the
// database's.
const (
	firstDelivery = 50 * time.Millisecond // doubled up to
	lastDelivery  = time.Second
)

// delivery is the way out of the spool. One goroutine at a time takes it.
type delivery struct {
	mu     sync.Mutex
	failed time.Time // the latest attempt
	err    error     // its error
}

// errSpooled says that a report was spooled while a transaction waited for the database: the
// transaction doesn't know of it.
var errSpooled = errors.New("a report was spooled meanwhile")

// checkNothingSpooled returns errSpooled if more was spooled than before the last delivery.
func (e *Engine) checkNothingSpooled(kept int64) error {
	if e.spool.kept.Load() != kept {
		return errSpooled
	}
	return nil
}

// deliverAll delivers what is in the spool whenever something is.
func (e *Engine) deliverAll(ctx context.Context) {
	for {
		select {
		case <-e.spool.added:
		case <-ctx.Done():
			return
		}
		for pause := firstDelivery; e.spool.pending.Load() > 0; pause = min(2*pause, lastDelivery) {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			_ = e.deliver(ctx) // the database's outage is in the log
		}
		if e.resumes.Load() {
			notify.Signal(e.poke)
		}
	}
}

// deliver tells the database what is in the spool. It is called before anything
// that may rule otherwise on the jobs in it: before they time out, are handed
// out, or are taken from a process that died. An Outage says that the rest is
// left; where only the disk is Full, what frees room may go on.
func (e *Engine) deliver(ctx context.Context) error {
	if e.spool.pending.Load() == 0 {
		return nil
	}
	d := &e.delivery
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.failed) < firstDelivery {
		return d.err
	}
	var full error
	stuck := map[Ref]bool{} // jobs whose next report has no room
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
				e.log.Error("what was kept while the database was not available can't be delivered", "job", one.Ref.ID, "endpoint", one.Ref.Endpoint, "error", err)
			}
			e.spool.done(one)
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
	at := min(one.At, e.now()) // the clock may have been set back since
	switch one.Kind {
	case jobReturn:
		return e.returnJob(ctx, one.Ref, at)
	case callOutcome:
		return e.recordCall(ctx, c.K, c.Until, c.Again)
	}
	got, streamed, err := e.report(ctx, one.Ref, c.report(one.Report), at, one.Streamed, Take{}, nil)
	if err == nil && got == Stale {
		// It may have counted already, by a commit whose answer was lost: those who
		// wait for it were not told.
		e.hub.changed(change{endpoint: one.Ref.Endpoint, id: one.Ref.ID})
		notify.Signal(e.calls)
	}
	if streamed > 0 {
		one.Streamed = streamed
	}
	return err
}

// Return queues a job again that its worker can't continue. That is not the job's fault and
// uses up no retry. If the database is not available, the return is spooled.
func (e *Engine) Return(ctx context.Context, ref Ref) error {
	if !e.spool.has(ref) {
		if err := e.returnJob(ctx, ref, e.now()); !sqldb.Temporary(err) {
			return err
		}
	}
	_, err := e.spool.keep(record{Kind: jobReturn, Ref: ref, At: e.now()}, content{})
	return err
}

// returnJob queues a job again that may have been handed out but never reached the worker:
// IN_PROGRESS → IN_QUEUE.
func (e *Engine) returnJob(ctx context.Context, ref Ref, at int64) error {
	_, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) ([]change, error) {
		// The transaction that handed it out may still be under way.
		if _, err := tx.Exec(lockJob, ref.Endpoint, ref.ID); err != nil {
			return nil, err
		}
		return update(tx, InQueue, returnHeld, e.now(), ref.Endpoint, ref.ID, at, ref.Worker, ref.Attempt, at)
	})
	return err
}

// Delivered waits until the database was told all that was reported of a job,
// or ctx ends: then the answer is sqldb.ErrUnavailable.
func (e *Engine) Delivered(ctx context.Context, ref Ref) error { return e.spool.delivered(ctx, ref) }
