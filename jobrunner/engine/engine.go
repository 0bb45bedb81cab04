// Package engine is the queue under the job API: jobs of endpoints, waiting,
// taken by workers, finished, and gone when their time is over. It is a state
// machine in SQL (machine.go): whatever happens to a job is one statement that
// names the states it leaves, so that of two callers who want different things
// one wins and the other is told.
//
// The engine knows no HTTP and starts no worker. A call that returned without
// error is as durable as the database under it.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Config is what an engine stands on.
type Config struct {
	DB     *sqldb.DB
	Clock  *clock.Clock
	Logger *slog.Logger
	// Poll is how often an engine on a database that others share looks at what
	// they did, and shows that it lives; 0 is half a second. Hints between
	// processes make most of it quicker.
	Poll time.Duration
	// Node is this process, for the others on the same database.
	Node Node
	// News is told what other processes announced; nil: nobody is. It is quick.
	News func(kind, id string)
	// Observe is told of every change that this process made to a job's state;
	// nil: nobody is.
	Observe func(Event)
	// Spool is a folder for what the database can't be told while it is not
	// available. It belongs to this engine alone. Empty: that is held in memory,
	// and ends with the process.
	Spool string
}

// Engine holds the jobs of all endpoints. Its methods may be called from many
// goroutines.
type Engine struct {
	db    *sqldb.DB
	clock *clock.Clock
	log   *slog.Logger

	hub      hub
	counts   counts
	spool    *spool
	delivery delivery
	drains   undeliveredChunks
	resumes  atomic.Bool // jobs that ran at the last stop are still to be put back

	observer func(Event)

	node   Node                   // this process, for the others
	id     atomic.Pointer[string] // of the process that hands out jobs, among those that share the database
	beatAt atomic.Pointer[time.Time]
	others atomic.Pointer[[]Node] // as of the last beat
	news   func(kind, id string)
	poll   time.Duration

	wakeAt atomic.Int64 // when the sweeper looks next, in milliseconds
	poke   chan struct{}
	calls  chan struct{} // hints that a webhook is to be called
	stop   context.CancelFunc
	swept  sync.WaitGroup
}

// Open brings the tables up to date and settles the jobs that ran when the
// jobrunner was last killed, as those of a worker that died; those that other
// processes on the same database run stay theirs. From then on goroutines watch over everything that
// time does to jobs, and over the other processes, until Close.
func Open(ctx context.Context, c Config) (*Engine, error) {
	e := &Engine{db: c.DB, clock: c.Clock, log: c.Logger, observer: c.Observe, node: c.Node, news: c.News, poke: make(chan struct{}, 1), calls: make(chan struct{}, 1), poll: cmp.Or(c.Poll, defaultPoll), spool: newSpool(c.Spool, c.Logger), counts: counts{all: map[string]*Counts{}}}
	if err := e.db.Migrate(ctx, "engine", schema); err != nil {
		return nil, err
	}
	e.db.BeforeCommit(e.beforeCommit)
	if err := e.join(ctx); err != nil {
		return nil, fmt.Errorf("joining the processes that share the database: %w", err)
	}
	if err := e.spool.load(); err != nil {
		return nil, err
	}
	if err := e.rewind(ctx); err != nil {
		return nil, fmt.Errorf("comparing the times of the jobs with the clock: %w", err)
	}
	// What workers reported to the last process goes before the return of its
	// jobs, which is put off where there is no room for that.
	err := e.deliver(ctx)
	if e.resumes.Store(sqldb.Classify(err) == sqldb.Full); err == nil {
		_, err = e.resume(ctx)
	}
	if err != nil && !e.resumes.Load() {
		return nil, fmt.Errorf("putting interrupted jobs back into the queue: %w", err)
	}
	if err := e.loadCounts(ctx); err != nil {
		return nil, fmt.Errorf("counting the jobs: %w", err)
	}
	sweeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	e.swept.Go(func() { e.sweep(sweeping) })
	e.swept.Go(func() { e.deliverAll(sweeping) })
	if e.db.Shared() {
		e.db.Listen(e.receiveHint)
		e.swept.Go(func() { e.watchOthers(sweeping) })
	}
	return e, nil
}

// Close stops the watch over time. Calls under way end by themselves; the
// database stays open. The jobs that were taken through this process go back to
// the queue.
func (e *Engine) Close() {
	e.stop()
	e.swept.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	err := e.deliver(ctx)
	if n := e.spool.inMemory(); n > 0 {
		e.log.Error("what workers reported is lost, for the database is not available: their jobs run again", "reports", n, "error", err)
	}
	e.leave(ctx)
}

func (e *Engine) now() int64 { return millis(e.clock.Now()) }

// resume settles the jobs of processes that died: of all that ran where nobody
// else is there, and else of those that no living worker, which may report to
// any process, holds by a lease. They are dispatched once more; a job whose
// processes keep dying has failed.
func (e *Engine) resume(ctx context.Context) (changes []change, err error) {
	err = e.writeWithReserve(ctx, func(tx *sqldb.Tx) (err error) {
		now := e.now()
		lease, err := e.leasesBefore(tx, now)
		if err != nil {
			return err
		}
		again, err := update(tx, InQueue, requeueOrphans, now, maxRetries, lease)
		if err := errors.Join(err, requeue(tx, again)); err != nil {
			return err
		}
		over, err := update(tx, Failed, failOrphans, now, now, maxRetries, lease)
		changes = append(again, over...)
		tx.Note(tallyOf(changes))
		return errors.Join(err, setLostError(tx, over, now, "the jobrunner that ran it was killed"))
	})
	return changes, err
}

// leasesBefore is the end of the leases that don't count when a process is gone.
func (e *Engine) leasesBefore(tx *sqldb.Tx, now int64) (int64, error) {
	others, err := e.otherProcesses(tx)
	if len(others) == 0 {
		return math.MaxInt64, err
	}
	return now, err
}
