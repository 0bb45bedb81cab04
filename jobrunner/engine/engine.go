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
	// Observe is told of every change that this process made to a job's state;
	// nil: nobody is.
	Observe func(Event)
}

// Engine holds the jobs of all endpoints. Its methods may be called from many
// goroutines.
type Engine struct {
	db    *sqldb.DB
	clock *clock.Clock
	log   *slog.Logger

	hub    hub
	counts counts

	observer func(Event)

	process string // that hands out jobs, among those that share the database
	poll    time.Duration

	wakeAt atomic.Int64 // when the sweeper looks next, in milliseconds
	poke   chan struct{}
	calls  chan struct{} // hints that a webhook is to be called
	stop   context.CancelFunc
	swept  sync.WaitGroup
}

// Open brings the tables up to date and puts jobs that ran when the jobrunner
// last stopped back into the queue; those that other processes on the same
// database run stay theirs. From then on goroutines watch over everything that
// time does to jobs, and over the other processes, until Close.
func Open(ctx context.Context, c Config) (*Engine, error) {
	e := &Engine{db: c.DB, clock: c.Clock, log: c.Logger, observer: c.Observe, poke: make(chan struct{}, 1), calls: make(chan struct{}, 1), poll: cmp.Or(c.Poll, defaultPoll)}
	if err := e.db.Migrate(ctx, "engine", schema); err != nil {
		return nil, err
	}
	if err := e.join(ctx); err != nil {
		return nil, fmt.Errorf("joining the processes that share the database: %w", err)
	}
	if _, err := e.resume(ctx); err != nil {
		return nil, fmt.Errorf("putting interrupted jobs back into the queue: %w", err)
	}
	if err := e.count(ctx); err != nil {
		return nil, fmt.Errorf("counting the jobs: %w", err)
	}
	sweeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	e.swept.Go(func() { e.sweep(sweeping) })
	if e.db.Shared() {
		e.db.Listen(e.told)
		e.swept.Go(func() { e.watchOthers(sweeping) })
	}
	return e, nil
}

// Close stops the watch over time. Calls under way end by themselves; the
// database stays open. On one that others share, the jobs that were taken
// through this process go back to the queue.
func (e *Engine) Close() {
	e.stop()
	e.swept.Wait()
	e.leave()
}

func (e *Engine) now() int64 { return millis(e.clock.Now()) }

// resume puts the jobs of processes that are gone back into the queue: all of
// them where nobody else is there, and else those that no living worker, which
// may report to any process, holds by a lease. What the interrupted runs left
// is not for the next ones.
func (e *Engine) resume(ctx context.Context) (changes []change, err error) {
	err = e.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
		now := e.now()
		others, err := e.others(tx)
		if err != nil {
			return err
		}
		lease := now
		if len(others) == 0 {
			lease = math.MaxInt64
		}
		changes, err = update(tx, InQueue, resumed, now, lease)
		if err != nil {
			return err
		}
		for _, c := range changes {
			for _, statement := range []string{noOutput, noChunks} {
				if _, err := tx.Exec(statement, c.k); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return changes, err
}
