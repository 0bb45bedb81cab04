package worker

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// pool is the workers of one endpoint. One goroutine decides how many there
// are; mu guards who they are and what they do.
type pool struct {
	id     string
	config Config
	queue  Queue
	clock  *clock.Clock
	logger *slog.Logger
	wake   chan struct{}
	done   chan struct{}
	stop   context.CancelFunc

	mu       sync.Mutex
	settings Endpoint
	workers  map[*worker]bool // all that are not gone
	drained  bool             // there are to be none
	past     []*worker        // that are, the latest last
	number   int64            // of workers so far
	added    time.Time
	advised  [advices]int64 // versions, from 1 on, for which the log has an advice
	backoff
	balance
}

func startPool(ctx context.Context, c Config, settings Endpoint) *pool {
	ctx, stop := context.WithCancel(ctx)
	p := &pool{
		id: settings.ID, config: c, queue: c.Queue, clock: c.Clock, logger: c.Logger, stop: stop,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		settings: settings, workers: map[*worker]bool{}, balance: balance{readied: make(chan struct{})},
	}
	go p.govern(ctx)
	return p
}

// close ends the workers and waits for them.
func (p *pool) close() {
	p.stop()
	<-p.done
}

// govern evaluates the load whenever something happened that may matter.
func (p *pool) govern(ctx context.Context) {
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

// drain lets the workers leave, and answers who they are.
func (p *pool) drain() []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drained = true
	for w := range p.workers {
		w.takeNone()
	}
	return slices.Collect(maps.Keys(p.workers))
}

// evaluate starts the workers that are missing, lets those leave that are not
// needed, and says when to look again.
func (p *pool) evaluate(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	load, err := p.load(ctx)
	if err != nil {
		if ctx.Err() == nil && !engine.Temporary(err) {
			p.logger.Error("the load of an endpoint could not be read", "endpoint", p.id, "error", err)
		}
		return retake
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drained {
		return recheck
	}
	now := p.clock.Now()
	retry := p.forgive(now)
	surge := p.roll()
	staying, spare := p.staying()
	want, again := p.settings.wanted(load, staying, spare, now, p.added)
	want = min(want+surge, p.settings.Max)
	again = min(again, retry, p.retire(load, now))
	if p.backsOff() || p.failing() {
		return again
	}
	for ; staying < want && len(p.workers) < p.settings.Max; staying++ {
		w := newWorker(ctx, p)
		p.workers[w] = true
		p.added = now
		workers.Go(func() { w.live(ctx) })
	}
	return again
}

// load is what asks for workers: jobs, or requests where there is no queue. How
// long the oldest job waits is read only where it decides.
func (p *pool) load(ctx context.Context) (engine.Load, error) {
	settings := p.current()
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
		if !w.stays() {
			continue
		}
		staying++
		if w.state != Running && w.state != Unhealthy {
			spare++
		}
	}
	return staying, spare
}

// retire lets the workers leave that were idle for their time, down to the
// minimum, and those above the maximum, and says when the next one may be. One
// that does not work yet is needed while jobs wait.
func (p *pool) retire(load engine.Load, now time.Time) (again time.Duration) {
	again = recheck
	staying, _ := p.staying()
	for w := range p.workers {
		if staying <= p.settings.Min {
			return recheck
		}
		if !w.stays() || len(w.hands) > 0 || w.state == Unhealthy || w.state != Idle && load.Waiting > 0 {
			continue
		}
		if left := w.since.Add(p.settings.IdleTimeout).Sub(now); left > 0 && staying <= p.settings.Max {
			again = min(again, left)
			continue
		}
		w.takeNone()
		staying--
	}
	for w := range p.workers {
		if staying > p.settings.Max && w.stays() {
			w.takeNone() // it leaves when its jobs are done
			staying--
		}
	}
	return again
}

func (p *pool) update(settings Endpoint) {
	p.mu.Lock()
	same := reflect.DeepEqual(settings, p.settings)
	if settings.Version != p.settings.Version {
		p.renew()
	}
	p.settings = settings
	p.mu.Unlock()
	if !same {
		p.poke()
	}
}

func (p *pool) current() Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

// take is how a worker takes jobs.
func (p *pool) take(w *worker, most int) engine.Take {
	return engine.Take{Endpoint: p.id, Worker: w.id, Max: most, Timeout: p.current().Timeout}
}

// left notes that nothing of a worker is there any more.
func (p *pool) left(w *worker, failure string) {
	p.mu.Lock()
	delete(p.workers, w)
	if failure != "" {
		p.fail(w, failure)
	} else {
		p.bury(w)
	}
	p.mu.Unlock()
	p.poke()
}

// bury keeps what a worker wrote for a while.
func (p *pool) bury(w *worker) {
	p.past = append(p.past, w)
	p.past = p.past[max(0, len(p.past)-keptPast):]
}

func (p *pool) poke() { hint(p.wake) }
