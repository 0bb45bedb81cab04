package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// pool is the workers of one endpoint. One goroutine decides how many there
// are; mu guards who they are and what they do.
type pool struct {
	id    string
	queue Queue
	clock *clock.Clock
	log   *slog.Logger
	wake  chan struct{}
	done  chan struct{}
	stop  context.CancelFunc

	mu        sync.Mutex
	settings  Endpoint
	workers   map[*worker]bool
	unhealthy string // why no worker can run, "" while one can
	added     time.Time
}

func startPool(ctx context.Context, c Config, settings Endpoint) *pool {
	ctx, stop := context.WithCancel(ctx)
	p := &pool{
		id: settings.ID, queue: c.Queue, clock: c.Clock, log: c.Logger, stop: stop,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		settings: settings, workers: map[*worker]bool{},
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

const (
	retake  = time.Second    // after an error of the engine
	recheck = 24 * time.Hour // when nothing happens; a safety net
)

// evaluate starts the workers that are missing, and says when to look again.
func (p *pool) evaluate(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	load, err := p.queue.Load(ctx, p.id)
	if err != nil {
		if ctx.Err() == nil {
			p.log.Error("the load of an endpoint could not be read", "endpoint", p.id, "error", err)
		}
		return retake
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	want, again := p.settings.wanted(load, len(p.workers), p.idle(), now, p.added)
	run, ok := builtin[p.settings.Image]
	switch {
	case want > 0 && !ok:
		p.refuse("no executor on this machine runs the image " + p.settings.Image)
		return again
	case ok:
		p.unhealthy = ""
	}
	for len(p.workers) < want {
		w := newWorker(p, run, now)
		var idling context.Context
		idling, w.retire = context.WithCancel(ctx)
		p.workers[w] = true
		p.added = now
		workers.Go(func() { w.work(ctx, idling) })
	}
	return min(again, p.retire(now))
}

// retire ends the workers that were idle for their time, down to the minimum,
// and says when the next one may be.
func (p *pool) retire(now time.Time) (again time.Duration) {
	again = recheck
	for w := range p.workers {
		if len(p.workers) <= p.settings.Min {
			return recheck
		}
		if w.busy {
			continue
		}
		if left := w.since.Add(p.settings.IdleTimeout).Sub(now); left > 0 {
			again = min(again, left)
			continue
		}
		delete(p.workers, w)
		w.retire()
	}
	return again
}

// refuse says once why the endpoint's jobs wait.
func (p *pool) refuse(reason string) {
	if p.unhealthy != reason {
		p.unhealthy = reason
		p.log.Warn("the jobs of an endpoint wait", "endpoint", p.id, "reason", reason)
	}
}

func (p *pool) idle() (n int) {
	for w := range p.workers {
		if !w.busy {
			n++
		}
	}
	return n
}

func (p *pool) update(settings Endpoint) {
	p.mu.Lock()
	p.settings = settings
	p.mu.Unlock()
	p.poke()
}

func (p *pool) current() Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

func (p *pool) left(w *worker) {
	p.mu.Lock()
	delete(p.workers, w)
	p.mu.Unlock()
	p.poke()
}

// occupied notes what a worker does. One that took a job at the moment of its
// retirement belongs to the pool until that is done.
func (p *pool) occupied(w *worker, busy bool) {
	p.mu.Lock()
	w.busy, w.since = busy, p.clock.Now()
	p.workers[w] = true
	p.mu.Unlock()
	p.poke()
}

func (p *pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pool) counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle()
	c := Counts{Idle: idle, Running: len(p.workers) - idle}
	if p.unhealthy != "" {
		c.Unhealthy = 1
	}
	return c
}

// wanted is how many workers there should be, and when that may change by
// itself. Idle ones end by their time-out, not here.
func (e Endpoint) wanted(load engine.Load, have, idle int, now, added time.Time) (want int, again time.Duration) {
	want, again = have, recheck
	switch {
	case e.ByRequests:
		need := (float64(load.Waiting+load.Running) + e.ScalerValue - 1) / e.ScalerValue
		want = max(want, int(need))
	case load.Waiting > idle && have == 0:
		want = 1 // the first job starts one at once
	case load.Waiting > idle:
		delay := time.Duration(e.ScalerValue * float64(time.Second))
		due := load.Oldest.Add(delay)
		if next := added.Add(delay); next.After(due) {
			due = next
		}
		if now.Before(due) {
			again = due.Sub(now)
		} else {
			want, again = have+1, delay
		}
	}
	return min(max(want, e.Min), e.Max), again
}
