// Package worker starts, scales and ends the workers of endpoints. Workers
// reach the queue by Take and Report alone.
package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// Queue is what pools and workers need of the engine.
type Queue interface {
	TakeOrWait(ctx context.Context, t engine.Take) ([]engine.Taken, error)
	Report(ctx context.Context, ref engine.Ref, r engine.Report) (engine.Directive, error)
	Holds(ctx context.Context, ref engine.Ref) (bool, error)
	Watch(endpoint, id string) *engine.Watch
	Load(ctx context.Context, endpoint string) (engine.Load, error)
}

// Endpoint is what rules an endpoint's workers.
type Endpoint struct {
	ID          string
	Image       string
	Min, Max    int
	IdleTimeout time.Duration // before an idle worker ends
	Timeout     time.Duration // of an execution, 0: never set
	ByRequests  bool          // scale on REQUEST_COUNT, else on QUEUE_DELAY
	ScalerValue float64       // requests per worker, or seconds a job may wait
}

// Config is what pools stand on.
type Config struct {
	Queue  Queue
	Clock  *clock.Clock
	Logger *slog.Logger
}

// Counts are an endpoint's workers by what they do.
type Counts struct {
	Idle, Initializing, Running, Throttled, Unhealthy int
}

// Pools are the workers of all endpoints.
type Pools struct {
	config Config
	ctx    context.Context // ends with Close
	stop   context.CancelFunc

	mu    sync.Mutex
	pools map[string]*pool
}

// New has no workers yet.
func New(c Config) *Pools {
	p := &Pools{config: c, pools: map[string]*pool{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Set makes an endpoint's settings count from now on, and starts its pool where
// there is none.
func (p *Pools) Set(e Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch one := p.pools[e.ID]; {
	case p.ctx.Err() != nil:
	case one != nil:
		one.update(e)
	default:
		p.pools[e.ID] = startPool(p.ctx, p.config, e)
	}
}

// Remove ends the workers of an endpoint that is gone.
func (p *Pools) Remove(endpoint string) {
	p.mu.Lock()
	one := p.pools[endpoint]
	delete(p.pools, endpoint)
	p.mu.Unlock()
	if one != nil {
		one.close()
	}
}

// Queued says that a job waits.
func (p *Pools) Queued(endpoint string) {
	if one := p.of(endpoint); one != nil {
		one.poke()
	}
}

// Counts counts an endpoint's workers.
func (p *Pools) Counts(endpoint string) Counts {
	if one := p.of(endpoint); one != nil {
		return one.counts()
	}
	return Counts{}
}

func (p *Pools) of(endpoint string) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pools[endpoint]
}

// Close ends all workers and waits for them.
func (p *Pools) Close() {
	p.stop()
	p.mu.Lock()
	pools := p.pools
	p.pools = map[string]*pool{}
	p.mu.Unlock()
	for _, one := range pools {
		one.close()
	}
}
