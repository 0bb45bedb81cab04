// Package engine implements the job queues of endpoints as a state machine in SQL
// (machine.go). Each transition is one statement that names the states it leaves: if two
// callers try conflicting transitions, one succeeds and the other learns that it failed.
//
// The engine neither speaks HTTP nor starts workers. Once a call has returned without an
// error, its effect is as durable as the database.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Config configures an engine.
type Config struct {
	DB     *sqldb.DB
	Clock  *clock.Clock
	Logger *slog.Logger
	// Poll is the interval at which the engine sends its heartbeat and looks for changes
	// of other processes on a shared database; 0 is half a second. Most changes arrive
	// earlier, as notifications.
	Poll time.Duration
	// Node describes this process to the others on the same database.
	Node Node
	// News is called for each announcement of another process, unless it is nil. It must
	// not block.
	News func(kind, id string)
	// Observe is called for each transition that this process makes, unless it is nil.
	Observe func(Event)
	// Spool is a folder for reports that arrive while the database is unavailable. No
	// other engine may use it. If it is empty, the reports are kept in memory.
	Spool string
}

// Engine runs the queues of all endpoints. It is safe for concurrent use.
type Engine struct {
	db    *sqldb.DB
	clock *clock.Clock
	log   *slog.Logger

	hub      hub
	counts   counts
	spool    *spool
	delivery delivery
	drained  undeliveredChunks

	handedOut handedOut

	resumePending atomic.Bool // resume failed at the start, because the disk was full

	observer func(Event)

	node   Node
	id     atomic.Pointer[string]    // of this process on a shared database
	beatAt atomic.Pointer[time.Time] // the last heartbeat
	others atomic.Pointer[[]Node]    // as of the last heartbeat
	news   func(kind, id string)
	poll   time.Duration

	wakeAt     atomic.Int64  // the sweeper's next run, in milliseconds
	sweepNow   chan struct{} // wakes the sweeper
	calls      chan struct{} // signals that a webhook call may be due
	stop       context.CancelFunc
	background sync.WaitGroup
}

// Open migrates the tables and requeues the jobs that ran when the jobrunner was killed, as
// if their workers had died. It leaves the jobs of live processes on the same database
// alone. Until Close, goroutines expire jobs and watch the other processes.
func Open(ctx context.Context, c Config) (*Engine, error) {
	e := &Engine{db: c.DB, clock: c.Clock, log: c.Logger, observer: c.Observe, node: c.Node, news: c.News, sweepNow: make(chan struct{}, 1), calls: make(chan struct{}, 1), poll: cmp.Or(c.Poll, defaultPoll), spool: newSpool(c.Spool, c.Logger), counts: counts{byEndpoint: map[string]*Counts{}},
		handedOut: handedOut{jobs: map[jobKey]*jobRow{}, taken: map[string]int{}}}
	if err := e.db.Migrate(ctx, "engine", schema); err != nil {
		return nil, err
	}
	e.db.BeforeCommit(e.beforeCommit)
	if e.db.Shared() {
		if err := e.enter(ctx); err != nil {
			return nil, fmt.Errorf("joining the processes that share the database: %w", err)
		}
	}
	if err := e.spool.load(); err != nil {
		return nil, err
	}
	if err := e.rewind(ctx); err != nil {
		return nil, fmt.Errorf("comparing the times of the jobs with the clock: %w", err)
	}
	// Reports to the last process come before resume, which would requeue their jobs. If
	// the disk is too full for the reports, the sweeper resumes later.
	err := e.deliver(ctx)
	if e.resumePending.Store(sqldb.Classify(err) == sqldb.Full); err == nil {
		_, err = e.resume(ctx)
	}
	if err != nil && !e.resumePending.Load() {
		return nil, fmt.Errorf("putting interrupted jobs back into the queue: %w", err)
	}
	if err := e.loadCounts(ctx); err != nil {
		return nil, fmt.Errorf("counting the jobs: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	e.background.Go(func() { e.sweep(running) })
	e.background.Go(func() { e.deliverAll(running) })
	if e.db.Shared() {
		e.db.Listen(e.receiveHint)
		e.background.Go(func() { e.watchOthers(running) })
	}
	return e, nil
}

// Close stops the engine's goroutines and requeues the jobs that this process handed out.
// It neither interrupts calls in progress nor closes the database.
func (e *Engine) Close() {
	e.stop()
	e.background.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	err := e.deliver(ctx)
	if n := e.spool.inMemory(); n > 0 {
		e.log.Error("what workers reported is lost, for the database is not available: their jobs run again", "reports", n, "error", err)
	}
	e.leave(ctx)
}

func (e *Engine) now() int64 { return millis(e.clock.Now()) }

// resume requeues the jobs of dead processes, or fails those without a retry left.
func (e *Engine) resume(ctx context.Context) (changes []change, err error) {
	err = e.writeWithReserve(ctx, func(tx *sqldb.Tx) (err error) {
		now := e.now()
		requeued, err := update(tx, InQueue, requeueOrphans, now, maxRetries)
		if err := errors.Join(err, markRequeued(tx, requeued)); err != nil {
			return err
		}
		failed, err := update(tx, Failed, failOrphans, now, now, maxRetries)
		changes = append(requeued, failed...)
		tx.Note(tallyOf(changes))
		return errors.Join(err, setLostError(tx, failed, now, "the jobrunner that ran it was killed"))
	})
	return changes, err
}

// RetryAfter is the number of seconds after which a client should retry while the database
// is unavailable.
const RetryAfter = sqldb.RetryAfter

// Temporary reports whether the same call of an engine or a store may succeed later,
// because the database is unavailable or full.
func Temporary(err error) bool { return sqldb.Temporary(err) }

// Outage explains why the database could not serve a call of an engine or a store.
type Outage struct {
	Public string // text for clients
	Full   bool   // the disk is full: calls that free space may succeed
}

// OutageOf returns the outage that caused an error, or nil.
func OutageOf(err error) *Outage {
	class := sqldb.Classify(err)
	if class == sqldb.Fault {
		return nil
	}
	return &Outage{Public: sqldb.Public(err), Full: class == sqldb.Full}
}
