package worker

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// poolCore is the part of a pool that workers use. It has no references to workers, so a worker that
// calls it while holding its own lock can't deadlock.
type poolCore struct {
	id     string
	config Config
	queue  Queue
	clock  *clock.Clock
	logger *slog.Logger

	currentSettings atomic.Pointer[Endpoint]
	wake            chan struct{}         // signals that the load must be evaluated
	full            atomic.Bool           // a change of jobs can't change the number of workers; see pool.isFull
	active          atomic.Bool           // jobs have come or gone since the last evaluation
	advisedVersions [advices]atomic.Int64 // by kind: 1 + the endpoint's version for which advice was logged, or 0
	backoff         backoff
	waiting         waitingRequests
}

func (p *poolCore) settings() Endpoint { return *p.currentSettings.Load() }

func (p *poolCore) poke() { notify.Signal(p.wake) }

// jobsChanged triggers an evaluation unless jobs can't change its result.
func (p *poolCore) jobsChanged() {
	if !p.active.Load() {
		p.active.Store(true)
	}
	if !p.full.Load() {
		p.poke()
	}
}

func (p *poolCore) takeParameters(w *worker, limit int) engine.Take {
	settings := p.currentSettings.Load()
	return engine.Take{Endpoint: p.id, Worker: w.id, Max: limit, Timeout: settings.Timeout, Leadership: settings.Leadership}
}

// pool manages the workers of one endpoint. One goroutine decides how many run; mu guards the
// set. A worker's own lock may be taken while mu is held, never the other way round.
type pool struct {
	poolCore
	done chan struct{}
	stop context.CancelFunc

	mu        sync.Mutex
	workers   map[*worker]bool // all that aren't gone
	failed    []*worker        // UNHEALTHY until they are replaced
	archived  []*worker        // ended, the latest last
	drained   bool             // no more workers may start
	lastStart time.Time        // of a worker
}

func startPool(ctx context.Context, c Config, settings Endpoint) *pool {
	ctx, stop := context.WithCancel(ctx)
	p := &pool{
		poolCore: poolCore{
			id: settings.ID, config: c, queue: c.Queue, clock: c.Clock, logger: c.Logger,
			wake: make(chan struct{}, 1), backoff: backoff{version: settings.Version}, waiting: waitingRequests{ready: make(chan struct{})},
		},
		done: make(chan struct{}), stop: stop, workers: map[*worker]bool{},
	}
	p.currentSettings.Store(&settings)
	go p.run(ctx)
	return p
}

// close ends the workers and waits for them.
func (p *pool) close() {
	p.stop()
	<-p.done
}

// run evaluates the load after each event that may matter.
func (p *pool) run(ctx context.Context) {
	defer close(p.done)
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		recheckIn := p.evaluate(ctx, &workers)
		timer := p.clock.NewTimer(recheckIn)
		select {
		case <-p.wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (p *pool) drain() []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drained = true
	for w := range p.workers {
		w.drain()
	}
	return slices.Collect(maps.Keys(p.workers))
}

// find returns a live worker for which test is true, or nil.
func (p *pool) find(test func(w *worker) bool) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.workers {
		if test(w) {
			return w
		}
	}
	return nil
}

// all returns the live workers, and the failed ones that aren't replaced yet. The caller holds mu.
func (p *pool) all() []*worker { return append(slices.Collect(maps.Keys(p.workers)), p.failed...) }

// blockReason returns why no worker of the endpoint can work, or "" if a worker works. After a failure it
// returns the old reason until a new worker is ready, or fails too.
func (p *pool) blockReason() (reason string) {
	if p.find(func(w *worker) bool { s := w.view().State; return s == Idle || s == Running }) != nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	startReason := ""
	for w := range p.workers {
		if v := w.view(); v.State == Initializing || v.State == Throttled {
			startReason = cmp.Or(v.reason, startReason)
		}
	}
	return cmp.Or(p.backoff.failure(), startReason)
}

// evaluate starts missing workers, drains surplus workers, and returns the time until the next evaluation.
func (p *pool) evaluate(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	if p.config.MayScale != nil && !p.config.MayScale(p.settings().Leadership) {
		return retryDelay
	}
	p.full.Store(false) // before the load is read: a job that comes later triggers the next evaluation
	active := p.active.Swap(false)
	load, err := p.load(ctx)
	if err != nil {
		if ctx.Err() == nil && !sqldb.Temporary(err) {
			p.logger.Error("the load of an endpoint could not be read", "endpoint", p.id, "error", err)
		}
		return retryDelay
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drained {
		return recheckInterval
	}
	now := p.clock.Now()
	settings, pause := p.settings(), p.backoff.pause(now)
	if pause == 0 { // new workers can take the places of the failed ones
		p.archive(p.failed...)
		p.failed = nil
	}
	surge := p.rollOut()
	staying, spare := p.countStaying()
	want, recheckIn := settings.desiredCount(load, staying, spare, now, p.lastStart)
	want = min(want+surge, settings.Max)
	recheckIn = min(recheckIn, p.retire(load, now))
	if pause > 0 {
		return min(recheckIn, pause)
	}
	if p.hasFailedWorker() {
		return recheckIn
	}
	if active && p.isFull() { // jobs come and go: skip the evaluations that they would trigger
		p.full.Store(true)
		return min(recheckIn, settings.IdleTimeout) // the earliest idle time-out
	}
	for ; staying < want && len(p.workers) < settings.Max; staying++ {
		w := newWorker(ctx, &p.poolCore)
		p.workers[w] = true
		p.lastStart = now
		workers.Go(func() {
			failure := w.runToEnd(ctx)
			p.recordEnd(w, failure)
			close(w.gone)
		})
	}
	return recheckIn
}

// isFull reports whether the pool is at its maximum and all its workers work and stay. Then no job can
// start a worker, and no worker leaves before its idle time-out. The caller holds mu.
func (p *pool) isFull() bool {
	for w := range p.workers {
		if v := w.view(); !v.takesJobs || v.stale || v.State != Idle && v.State != Running {
			return false
		}
	}
	settings := p.settings()
	return len(p.workers) == settings.Max && settings.IdleTimeout > 0
}

// load returns the demand: jobs, or requests behind a load balancer.
func (p *pool) load(ctx context.Context) (load engine.Load, err error) {
	if !p.settings().Balanced {
		return p.queue.Load(ctx, p.id)
	}
	load.Waiting, _ = p.waiting.state()
	p.find(func(w *worker) bool { load.Running += w.view().jobs; return false })
	return load, nil
}

// countStaying counts the workers that aren't about to leave, and how many of them will take a waiting job.
func (p *pool) countStaying() (staying, spare int) {
	for w := range p.workers {
		if v := w.view(); v.takesJobs {
			staying++
			if v.State != Running && v.State != Unhealthy {
				spare++
			}
		}
	}
	return staying, spare
}

// retire drains workers whose idle time-out has passed, down to the minimum, and workers above the maximum.
// It returns the time until the next idle time-out. While jobs wait, it keeps workers that are still starting.
func (p *pool) retire(load engine.Load, now time.Time) (recheckIn time.Duration) {
	recheckIn = recheckInterval
	settings := p.settings()
	staying, _ := p.countStaying()
	for w := range p.workers {
		if staying <= settings.Min {
			return recheckInterval
		}
		v := w.view()
		if !v.takesJobs || v.jobs > 0 || v.State == Unhealthy || v.State != Idle && load.Waiting > 0 {
			continue
		}
		if left := v.idleSince.Add(settings.IdleTimeout).Sub(now); left > 0 && staying <= settings.Max {
			recheckIn = min(recheckIn, left)
			continue
		}
		w.drain()
		staying--
	}
	for w := range p.workers {
		if staying > settings.Max && w.takesJobs() {
			w.drain() // it leaves when its jobs are done
			staying--
		}
	}
	return recheckIn
}

// update applies new settings. It must not be called concurrently.
func (p *pool) update(settings Endpoint) {
	before := p.settings()
	p.currentSettings.Store(&settings)
	if settings.Version != before.Version {
		p.backoff.reset(settings.Version)
	}
	if !reflect.DeepEqual(settings, before) {
		p.poke()
	}
}

// recordEnd records that a worker is gone. failure is why it couldn't work, or "".
func (p *pool) recordEnd(w *worker, failure string) {
	if failure != "" {
		failure = logline.Shorten(failure, maxReason)
		w.fail(failure)
		if p.backoff.recordFailure(w.settings.Version, failure, p.clock.Now()) {
			p.logger.Warn("a worker failed: the endpoint's next worker starts after a pause", "endpoint", p.id, "worker", w.id, "reason", failure)
		}
	}
	p.mu.Lock()
	delete(p.workers, w)
	if failure != "" {
		p.failed = append(p.failed, w)
	} else {
		p.archive(w)
	}
	p.mu.Unlock()
	p.poke()
}

// archive keeps the logs of the last maxArchived ended workers. The caller holds mu.
func (p *pool) archive(workers ...*worker) {
	p.archived = append(p.archived, workers...)
	p.archived = p.archived[max(0, len(p.archived)-maxArchived):]
}

// hasFailedWorker reports whether a failed worker hasn't ended yet. The pause begins at its end. The caller holds mu.
func (p *pool) hasFailedWorker() bool {
	for w := range p.workers {
		if v := w.view(); v.State == Unhealthy && !v.stale {
			return true
		}
	}
	return false
}
