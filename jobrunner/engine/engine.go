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
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Config is what an engine stands on.
type Config struct {
	DB     *sqldb.DB
	Clock  *clock.Clock
	Logger *slog.Logger
}

// Engine holds the jobs of all endpoints. Its methods may be called from many
// goroutines.
type Engine struct {
	db    *sqldb.DB
	clock *clock.Clock
	log   *slog.Logger

	hub    hub
	counts counts

	wakeAt atomic.Int64 // when the sweeper looks next, in milliseconds
	poke   chan struct{}
	stop   context.CancelFunc
	swept  sync.WaitGroup
}

// Open brings the tables up to date and puts jobs that ran when the jobrunner
// last stopped back into the queue. From then on a goroutine watches over
// everything that time does to jobs, until Close.
func Open(ctx context.Context, c Config) (*Engine, error) {
	e := &Engine{db: c.DB, clock: c.Clock, log: c.Logger, poke: make(chan struct{}, 1)}
	if err := e.db.Migrate(ctx, "engine", schema); err != nil {
		return nil, err
	}
	if err := e.resume(ctx); err != nil {
		return nil, fmt.Errorf("putting interrupted jobs back into the queue: %w", err)
	}
	if err := e.count(ctx); err != nil {
		return nil, fmt.Errorf("counting the jobs: %w", err)
	}
	sweeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	e.swept.Go(func() { e.sweep(sweeping) })
	return e, nil
}

// Close stops the watch over time. Calls under way end by themselves; the
// database stays open.
func (e *Engine) Close() {
	e.stop()
	e.swept.Wait()
}

func (e *Engine) now() int64 { return millis(e.clock.Now()) }

// resume gives no output and no chunk of the interrupted run to the next one.
func (e *Engine) resume(ctx context.Context) error {
	now := e.now()
	return e.db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, statement := range []string{noOutputs, noChunksOfAll} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		_, err := tx.Exec(resumed, now)
		return err
	})
}
