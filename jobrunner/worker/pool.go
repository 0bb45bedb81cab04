package worker

import (
	"cmp"
	"context"
	"iter"
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
)

// home is what the workers of one endpoint stand on and tell of themselves. It
// knows none of them: what a worker calls here never comes back to a worker.
type home struct {
	id     string
	config Config
	queue  Queue
	clock  *clock.Clock
	logger *slog.Logger

	latest  atomic.Pointer[Endpoint] // its settings
	wake    chan struct{}            // the load is to be evaluated
	full    atomic.Bool              // what jobs do matters to no evaluation; see pool.isFull
	active  atomic.Bool              // jobs have come or gone since the last evaluation
	advised [advices]atomic.Int64    // versions, from 1 on, for which the log has an advice
	backoff backoff
	balance balance
}

func (h *home) settings() Endpoint { return *h.latest.Load() }

// poke has the load evaluated.
func (h *home) poke() { notify.Signal(h.wake) }

// jobsChanged has the load evaluated unless it makes no difference.
func (h *home) jobsChanged() {
	if !h.active.Load() {
		h.active.Store(true)
	}
	if !h.full.Load() {
		h.poke()
	}
}

// take is how a worker takes jobs.
func (h *home) take(w *worker, most int) engine.Take {
	settings := h.latest.Load()
	return engine.Take{Endpoint: h.id, Worker: w.id, Max: most, Timeout: settings.Timeout, Lead: settings.Lead}
}

// pool is the workers of one endpoint. One goroutine decides how many there
// are; mu guards who they are. A worker has a lock of its own for what it does,
// which is taken while mu is held, and never the other way round.
type pool struct {
	home
	done chan struct{}
	stop context.CancelFunc

	mu      sync.Mutex
	workers map[*worker]bool // all that are not gone
	failed  []*worker        // that are UNHEALTHY until others are started
	past    []*worker        // that ended, the latest last
	drained bool             // there are to be none
	number  int64            // of workers so far
	added   time.Time
}

func startPool(ctx context.Context, c Config, settings Endpoint) *pool {
	ctx, stop := context.WithCancel(ctx)
	p := &pool{
		home: home{
			id: settings.ID, config: c, queue: c.Queue, clock: c.Clock, logger: c.Logger,
			wake: make(chan struct{}, 1), backoff: backoff{version: settings.Version}, balance: balance{ready: make(chan struct{})},
		},
		done: make(chan struct{}), stop: stop, workers: map[*worker]bool{},
	}
	p.latest.Store(&settings)
	go p.run(ctx)
	return p
}

// close ends the workers and waits for them.
func (p *pool) close() {
	p.stop()
	<-p.done
}

// run evaluates the load whenever something happened that may matter.
func (p *pool) run(ctx context.Context) {
	defer close(p.done)
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		again := p.evaluate(ctx, &workers)
		timer := p.clock.NewTimer(again)
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

// drain lets the workers leave, and returns who they are.
func (p *pool) drain() []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drained = true
	for w := range p.workers {
		w.drain()
	}
	return slices.Collect(maps.Keys(p.workers))
}

// find is a worker that a test holds for, nil for none.
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

// each are all workers that have a state: those that live, and those that
// failed and are not replaced yet. The pool is locked.
func (p *pool) each() iter.Seq[*worker] {
	return func(yield func(*worker) bool) {
		for w := range p.workers {
			if !yield(w) {
				return
			}
		}
		for _, w := range p.failed {
			if !yield(w) {
				return
			}
		}
	}
}

// waitsFor is why no worker of the endpoint can work, and its jobs wait; "" while
// one does. One that starts anew after a failure changes nothing before it is
// ready, or is known not to get ready.
func (p *pool) waitsFor() (reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	unready := ""
	for w := range p.each() {
		switch v := w.now(); v.State {
		case Idle, Running:
			return ""
		case Initializing:
			unready = cmp.Or(v.reason, unready)
		}
	}
	return cmp.Or(p.backoff.failure(), unready)
}

// evaluate starts the workers that are missing, lets those leave that are not
// needed, and says when to look again.
func (p *pool) evaluate(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	if p.config.MayScale != nil && !p.config.MayScale(p.settings().Lead) {
		return retake
	}
	load, err := p.load(ctx)
	if err != nil {
		if ctx.Err() == nil && !engine.Temporary(err) {
			p.logger.Error("the load of an endpoint could not be read", "endpoint", p.id, "error", err)
		}
		return retake
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full.Store(false)
	active := p.active.Swap(false)
	if p.drained {
		return recheck
	}
	now := p.clock.Now()
	settings, pause := p.settings(), p.backoff.pause(now)
	if pause == 0 {
		p.replaceFailed()
	}
	surge := p.rollOut()
	staying, spare := p.staying()
	want, again := settings.wanted(load, staying, spare, now, p.added)
	want = min(want+surge, settings.Max)
	again = min(again, p.retire(load, now))
	if pause > 0 {
		return min(again, pause)
	}
	if p.failing() {
		return again
	}
	if active && p.isFull() { // without jobs that come and go there is nothing to save
		p.full.Store(true)
		return min(again, settings.IdleTimeout) // when one may have been idle for long enough
	}
	for ; staying < want && len(p.workers) < settings.Max; staying++ {
		p.number++
		w := newWorker(ctx, &p.home, p.number)
		p.workers[w] = true
		p.added = now
		workers.Go(func() {
			p.noteEnd(w, w.live(ctx))
			close(w.gone)
		})
	}
	return again
}

// isFull tells whether all workers that there may be work and are to stay: whatever
// jobs come and go, none is started, and none leaves before it was idle for its time.
// The pool is locked.
func (p *pool) isFull() bool {
	for w := range p.workers {
		if v := w.now(); !v.staying || v.stale || v.State != Idle && v.State != Running {
			return false
		}
	}
	settings := p.settings()
	return len(p.workers) == settings.Max && settings.IdleTimeout > 0
}

// load is what asks for workers: jobs, or requests where there is no queue. How
// long the oldest job waits is read only where it decides.
func (p *pool) load(ctx context.Context) (engine.Load, error) {
	settings := p.settings()
	if settings.Balanced {
		return p.requests(), nil
	}
	load, err := p.queue.Demand(ctx, p.id)
	if err != nil || settings.ByRequests {
		return load, err
	}
	p.mu.Lock()
	staying, spare := p.staying()
	p.mu.Unlock()
	if load.Waiting <= spare || staying >= settings.Max {
		return load, nil
	}
	return p.queue.Load(ctx, p.id)
}

// staying counts the workers that are not about to leave, and those of them that
// will take a job that waits.
func (p *pool) staying() (staying, spare int) {
	for w := range p.workers {
		if v := w.now(); v.staying {
			staying++
			if v.State != Running && v.State != Unhealthy {
				spare++
			}
		}
	}
	return staying, spare
}

// retire lets the workers leave that were idle for their time, down to the
// minimum, and those above the maximum, and says when the next one may be. One
// that does not work yet is needed while jobs wait.
func (p *pool) retire(load engine.Load, now time.Time) (again time.Duration) {
	again = recheck
	settings := p.settings()
	staying, _ := p.staying()
	for w := range p.workers {
		if staying <= settings.Min {
			return recheck
		}
		v := w.now()
		if !v.staying || v.jobs > 0 || v.State == Unhealthy || v.State != Idle && load.Waiting > 0 {
			continue
		}
		if left := v.since.Add(settings.IdleTimeout).Sub(now); left > 0 && staying <= settings.Max {
			again = min(again, left)
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
	return again
}

// update makes settings count. One call at a time.
func (p *pool) update(settings Endpoint) {
	before := p.settings()
	p.latest.Store(&settings)
	if settings.Version != before.Version {
		p.backoff.renew(settings.Version)
	}
	if !reflect.DeepEqual(settings, before) {
		p.poke()
	}
}

// noteEnd notes that nothing of a worker is there any more, and why it could not
// work.
func (p *pool) noteEnd(w *worker, failure string) {
	if failure != "" {
		failure = logline.Shorten(failure, maxReason)
		w.fail(failure)
		if p.backoff.fail(w.settings.Version, failure, p.clock.Now()) {
			p.logger.Warn("no worker of an endpoint can work, and its jobs wait", "endpoint", p.id, "worker", w.id, "reason", failure)
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

// replaceFailed archives the workers that failed: others take their places.
func (p *pool) replaceFailed() {
	p.archive(p.failed...)
	p.failed = nil
}

// archive keeps what workers wrote for a while. The pool is locked.
func (p *pool) archive(workers ...*worker) {
	p.past = append(p.past, workers...)
	p.past = p.past[max(0, len(p.past)-keptPast):]
}

// failing tells whether a worker has failed that is not gone yet: the pause
// begins when it is. The pool is locked.
func (p *pool) failing() bool {
	for w := range p.workers {
		if v := w.now(); v.State == Unhealthy && !v.stale {
			return true
		}
	}
	return false
}
