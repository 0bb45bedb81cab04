// Package engine implements the job queues of endpoints. One process leads an endpoint: it
// has the endpoint's active jobs in memory, decides their transitions (row.apply), and
// stores them in SQLite or PostgreSQL (committer, store). Without a disk or server, all
// jobs are in memory.
//
// The engine doesn't serve HTTP or start workers. If a call returns no error, its effect is as
// durable as the database, except for Take, and for a Report that returns SpooledInMemory.
package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

type Config struct {
	DB     *sqldb.DB
	Clock  *clock.Clock
	Logger *slog.Logger
	// Node describes this process to other processes on the same database.
	Node Node
	// Observe, unless nil, is called for each transition that this process makes.
	Observe func(Event)
	// DataDir is the data folder, which no other engine may use. Its SpoolFolder has the reports that
	// arrive while the database is unavailable. If DataDir is "", they are in memory.
	DataDir string

	poll time.Duration // 0: defaultPoll
}

// Engine runs the queues of endpoints. It is safe for concurrent use.
type Engine struct {
	Config
	store   *store // nil if all jobs are in memory
	commits committer
	memory  memory
	spool   spool
	hub     hub
	lastKey atomic.Int64

	mu      sync.RWMutex
	queues  map[string]*queue
	loading sync.Mutex // held while endpoints are claimed or released, queues are loaded, or id changes

	number atomic.Int64                       // of this process on a shared database; part of job keys
	id     atomic.Pointer[string]             // of this process on a shared database, or ""
	beatAt atomic.Pointer[time.Time]          // the last heartbeat
	others atomic.Pointer[map[string]process] // by id, as of the last heartbeat

	wakeAt     atomic.Int64  // the sweeper's next run, in milliseconds
	sweepNow   chan struct{} // wakes the sweeper
	calls      chan struct{} // signals that a webhook call may be due
	stop       func()
	background sync.WaitGroup // of all goroutines except the committer
	committing sync.WaitGroup // of the committer
}

// ErrNotLeader means that another process leads the endpoint. It is a temporary error.
var ErrNotLeader = fmt.Errorf("%w: another jobrunner leads the endpoint", sqldb.ErrUnavailable)

// Open migrates the tables and requeues the jobs that ran when the jobrunner was killed, as
// if their workers had died. On a shared database it leaves the jobs of other processes
// alone. Until Close, goroutines commit changes, expire jobs and watch the other processes.
func Open(ctx context.Context, c Config) (*Engine, error) {
	c.poll = cmp.Or(c.poll, defaultPoll)
	e := &Engine{
		Config: c, sweepNow: make(chan struct{}, 1), calls: make(chan struct{}, 1), queues: map[string]*queue{}, hub: hub{watches: map[jobKey]map[*Watch]bool{}},
	}
	e.id.Store(new(string))
	e.others.Store(new(map[string]process))
	e.commits = committer{engine: e, changed: make(chan struct{}, 1), retry: make(chan struct{}, 1)}
	if e.memory.limit = e.DB.Memory(); e.memory.limit == 0 {
		e.store = &store{db: e.DB, undelivered: map[int64][]numberedChunk{}}
		if err := e.prepareStore(ctx); err != nil {
			return nil, err
		}
	}
	e.commits.renew()
	backgroundCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	commitCtx, stopCommits := context.WithCancel(context.WithoutCancel(ctx))
	if e.store != nil {
		e.committing.Go(func() { e.commits.run(commitCtx) })
	}
	e.stop = func() {
		stop()
		e.background.Wait()
		e.leave()
		stopCommits()
		e.committing.Wait()
	}
	if e.store != nil && !e.DB.Shared() {
		names, err := e.StoredQueues(ctx)
		if err = cmp.Or(err, e.loadQueues(ctx, 0, names...)); err == nil {
			err = e.commits.flushUnlessDiskFull()
		}
		if err != nil {
			e.stop()
			return nil, fmt.Errorf("reading the jobs: %w", err)
		}
	}
	e.background.Go(func() { e.sweep(backgroundCtx) })
	if e.DB.Shared() {
		e.background.Go(func() { e.watchOthers(backgroundCtx) })
	}
	return e, nil
}

func (e *Engine) prepareStore(ctx context.Context) error {
	if err := e.DB.Migrate(ctx, "engine", schema); err != nil {
		return err
	}
	if e.DB.Shared() {
		if err := e.join(ctx); err != nil {
			return fmt.Errorf("joining the processes that share the database: %w", err)
		}
	}
	if err := e.spool.open(e.DataDir, e.Logger); err != nil {
		return err
	}
	if err := e.rewind(ctx); err != nil {
		return fmt.Errorf("moving the times of the jobs to a clock that was set back: %w", err)
	}
	return e.DB.Read(ctx, func(r *sqldb.Reader) error {
		var last int64
		err := r.QueryRow(`SELECT COALESCE(MAX(k), 0) FROM (SELECT MAX(k) AS k FROM jobs UNION ALL SELECT MAX(k) FROM batches) AS keys`).Scan(&last)
		e.lastKey.Store(last)
		return err
	})
}

// Close stops the engine's goroutines and requeues the jobs that this process handed out.
// Changes that come too late for its last commit fail. It doesn't close the database.
func (e *Engine) Close() { e.stop() }

// leave requeues the running jobs and gives up the leadership of this process. If it fails,
// another process or the next start requeues them, and counts a retry.
func (e *Engine) leave() {
	for _, q := range e.loadedQueues() {
		q.mu.Lock()
		for _, j := range q.jobs {
			q.apply(j, event{kind: returned, worker: j.worker, attempt: j.attempt})
		}
		q.unlock()
	}
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		_ = e.commits.flush() // e.commits.failure returns the error
	}()
	select {
	case <-stored:
	case <-time.After(leaveTimeout):
	}
	if err := e.commits.failure(); err != nil {
		if n := e.spool.inMemory(); n > 0 {
			e.Logger.Error("reports of workers are lost because the database is unavailable: their jobs run again", "reports", n, "error", err)
		}
		return
	}
	if e.DB.Shared() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		if _, err := e.exec(ctx, deleteProcess, e.Process()); err != nil && !sqldb.Temporary(err) {
			e.Logger.Error("giving up the leadership of this process", "error", err)
		}
	}
}

func (e *Engine) now() int64 { return e.Clock.Now().UnixMilli() }

// loadedQueues returns the queues that this process leads.
func (e *Engine) loadedQueues() []*queue {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Collect(maps.Values(e.queues))
}

// loadedQueue returns a queue if this process leads its endpoint and has loaded it, or nil.
func (e *Engine) loadedQueue(name string) *queue {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.queues[name]
}

// lock locks a queue for one operation, which the caller ends with queue.unlock. On a
// shared database it claims the endpoint if no process leads it, and returns
// ErrNotLeader if another process does.
func (e *Engine) lock(ctx context.Context, name string) (*queue, error) {
	for {
		q := e.loadedQueue(name)
		if q == nil {
			if err := e.lead(ctx, name); err != nil {
				return nil, err
			}
			continue
		}
		if q.lockIfOpen() {
			return q, nil
		}
	}
}

// lead makes this process the leader of a queue.
func (e *Engine) lead(ctx context.Context, name string) error {
	if !e.DB.Shared() {
		e.loading.Lock()
		defer e.loading.Unlock()
		return e.loadQueues(ctx, 0, name)
	}
	claimed, err := e.Claim(ctx, EndpointOf(name))
	if err == nil && claimed[EndpointOf(name)] == (Leadership{}) {
		err = ErrNotLeader
	}
	return err
}

// loadQueues loads queues that this process leads. The caller holds loading.
func (e *Engine) loadQueues(ctx context.Context, epoch int64, names ...string) error {
	for _, name := range names {
		if e.loadedQueue(name) != nil {
			continue
		}
		q := newQueue(e, name, epoch)
		var jobs []*job
		if e.store != nil {
			var err error
			if jobs, q.counts, err = e.store.load(ctx, name); err != nil {
				return err
			}
			if err := q.loadBatches(ctx); err != nil {
				return err
			}
		}
		q.mu.Lock()
		for _, j := range jobs {
			q.add(j)
			q.place(j)
		}
		e.replay(q)
		for _, j := range jobs {
			if strings.HasSuffix(j.id, attachedSuffix) && j.turn == j.submittedAt { // its client has disconnected, and no other client has retried it
				q.apply(j, event{kind: cancelled})
			} else if j.state == InProgress {
				q.apply(j, event{kind: lost, worker: j.worker, attempt: j.attempt, message: "the jobrunner that ran it was killed"})
			}
		}
		e.mu.Lock()
		e.queues[name] = q
		e.mu.Unlock()
		q.reconcileBatches()
		q.unlock()
		e.wake(e.now())
	}
	return nil
}

// memory counts the bytes that jobs take in memory.
type memory struct {
	used  atomic.Int64
	limit int64 // 0: unlimited
}

func (m *memory) use(n int) { m.used.Add(int64(n)) }

// check returns an error if n more bytes exceed the limit, which is lower for submissions, so that
// a deployment whose memory gets full rejects jobs before results. A quarter of the memory is for objects.
func (m *memory) check(n int, submission bool) error {
	limit := m.limit / 4 * 3
	if submission {
		limit = m.limit / 2
	}
	if m.limit == 0 || m.used.Load()+int64(n) <= limit {
		return nil
	}
	return &sqldb.MemoryFullError{Limit: m.limit}
}
