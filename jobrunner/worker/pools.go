// Package worker starts, feeds, watches, scales and ends the workers of
// endpoints. Workers reach the queue by Take and Report alone.
//
// # The life of a worker
//
// What happens to a worker (state.go) changes its state so, and not otherwise:
//
//	              refused    placed        asked  took     emptied  failed     ends
//	INITIALIZING  THROTTLED                IDLE   RUNNING           UNHEALTHY  ENDING
//	THROTTLED                INITIALIZING                           UNHEALTHY  ENDING
//	IDLE                                          RUNNING           UNHEALTHY  ENDING
//	RUNNING                                                IDLE     UNHEALTHY  ENDING
//	UNHEALTHY
//	ENDING
//
// Beside that it goes one way, from the top to the bottom:
//
//	takes jobs  until drain: its pool has no use for it, or it can't work any more
//	drains      until its last job is over, it is killed, or its process has ended
//	ends        its process is killed and its jobs are given back (end)
//	is gone     its pool keeps its log for a while (noteEnd)
//
// # Who locks what
//
// Pools knows the pools, a pool its workers, a worker its jobs: each has one lock,
// which is taken in this order. What workers tell upwards goes to their home,
// which has the back-off and the requests that wait, and knows no worker.
package worker

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Queue is what pools and workers need of the engine.
type Queue interface {
	TakeOrWait(ctx context.Context, t engine.Take) ([]engine.Taken, error)
	Report(ctx context.Context, ref engine.Ref, r engine.Report) (engine.Directive, error)
	Return(ctx context.Context, ref engine.Ref) error
	Delivered(ctx context.Context, ref engine.Ref) error
	Holds(ctx context.Context, ref engine.Ref) (bool, error)
	Watch(endpoint, id string) *engine.Watch
	NewTaker() *engine.Taker
	Demand(ctx context.Context, endpoint string) (engine.Load, error)
	Load(ctx context.Context, endpoint string) (engine.Load, error)
}

// Devices are the machine's GPUs, each for one worker at a time.
type Devices interface {
	// Acquire gives an owner devices until Release. The error says, for people,
	// why not.
	Acquire(want gpu.Request, owner string) ([]gpu.Device, error)
	Release(owner string)
	// Freed is a hint to the one who listens that a request that was refused may
	// be met now.
	Freed() <-chan struct{}
}

// Meter is told of the workers that run, for billing. Its calls don't wait.
type Meter interface {
	Begin(worker string, e Endpoint, p Placement)
	End(worker string)
}

// Endpoint is what rules an endpoint's workers.
type Endpoint struct {
	ID string
	store.Container
	Version  int64      // of what workers are made of: others are stale
	GPU      *store.GPU // what they ask for; nil: none
	CPU      []store.CPU
	Volumes  []string // ids of network volumes, of which a worker has the first
	Balanced bool     // workers serve HTTP behind a load balancer, and there is no queue

	DataCenters []string // that they may be in; empty: any
	Template    string   // id of the one that the endpoint is linked to, "" for none

	Min, Max    int
	IdleTimeout time.Duration // before an idle worker ends
	Timeout     time.Duration // of an execution, 0: never set
	Lead        engine.Lead   // the process's, where several share the endpoints; zero: it is the only one
	ByRequests  bool          // scale on REQUEST_COUNT, else on QUEUE_DELAY
	ScalerValue float64       // requests per worker, or seconds a job may wait
}

// Config is what pools stand on.
type Config struct {
	Queue Queue
	// Programs resolves images that aren't built in. Nil resolves none.
	Programs run.Programs
	// URL is the deployment's, as workers reach it. Empty: no worker can be a
	// process.
	URL string
	// Devices are given to the workers of endpoints that ask for GPUs. nil is a
	// machine without any: all workers run on its CPU.
	Devices Devices
	// Catalog says of what there is stock, and where; nil is the one that is built
	// in, which says nothing of that.
	Catalog *catalog.Source
	// MayScale says that workers may be started by a lead; nil: always.
	MayScale func(engine.Lead) bool
	// Meter is told which workers run; nil: nobody is.
	Meter Meter
	// Sample tells how a device does, for the log of a job's end; nil: not.
	Sample func(uuid string) (gpu.Sample, error)
	// Volume returns a network volume without a mount path; nil: there are none.
	Volume func(ctx context.Context, id string) (run.Mount, error)
	// Credentials are those of a registry auth; nil: there are none.
	Credentials func(ctx context.Context, id string) (store.Credentials, error)
	Secrets     run.Resolver
	// LogTo takes each line that a worker writes, behind its id; nil: none.
	LogTo  io.Writer
	Clock  *clock.Clock
	Logger *slog.Logger

	makeRoom func(Endpoint) // has a worker of a batch leave whose devices the endpoint waits for
}

// Pools are the workers of all endpoints.
type Pools struct {
	config Config
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	spread sync.WaitGroup

	mu      sync.Mutex
	pools   map[string]*pool
	drained bool // there are to be no workers any more
}

// serialized is an io.Writer for concurrent use.
type serialized struct {
	mu sync.Mutex
	to io.Writer
}

func (s *serialized) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(b)
}

// New has no workers yet.
func New(c Config) *Pools {
	c.Programs = programs{c.Programs}
	if c.LogTo != nil {
		c.LogTo = &serialized{to: c.LogTo}
	}
	p := &Pools{config: c, pools: map[string]*pool{}}
	p.config.makeRoom = p.makeRoom
	p.ctx, p.stop = context.WithCancel(context.Background())
	if c.Devices != nil {
		p.spread.Go(p.forwardFreed)
	}
	return p
}

// Set makes an endpoint's settings count from now on, and starts its pool where
// there is none. Workers of another version are replaced, each once its jobs
// are done.
func (p *Pools) Set(e Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch one := p.pools[e.ID]; {
	case p.ctx.Err() != nil || p.drained && one == nil:
	case one != nil:
		one.update(e)
		if batch := p.pools[engine.BatchQueue(e.ID)]; batch != nil {
			batch.update(batchSettings(e))
		}
	default:
		p.pools[e.ID] = startPool(p.ctx, p.config, e)
	}
}

// Remove ends the workers of an endpoint that is gone.
func (p *Pools) Remove(endpoint string) {
	p.mu.Lock()
	var removed []*pool
	for _, queue := range []string{endpoint, engine.BatchQueue(endpoint)} {
		if one := p.pools[queue]; one != nil {
			removed = append(removed, one)
			delete(p.pools, queue)
		}
	}
	p.mu.Unlock()
	for _, one := range removed {
		one.close()
	}
}

// Leads is the lead by which an endpoint's workers are here; false: they are not.
func (p *Pools) Leads(endpoint string) (engine.Lead, bool) {
	one := p.pool(endpoint)
	if one == nil {
		return engine.Lead{}, false
	}
	return one.settings().Lead, true
}

// Vacant tells that an endpoint has no worker here, not even one whose end is under way.
func (p *Pools) Vacant(endpoint string) bool {
	for _, one := range p.ofEndpoint(endpoint) {
		if one.find(func(*worker) bool { return true }) != nil {
			return false
		}
	}
	return true
}

// Queued says that a job waits. The first request of a batch starts the pool of its queue.
func (p *Pools) Queued(queue string) {
	if one := p.pool(queue); one != nil {
		one.jobsChanged()
	} else if engine.IsBatchQueue(queue) {
		p.startBatch(engine.EndpointOf(queue))
	}
}

func (p *Pools) pool(endpoint string) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pools[endpoint]
}

func (p *Pools) all() []*pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*pool, 0, len(p.pools))
	for _, one := range p.pools {
		all = append(all, one)
	}
	return all
}

// Drain lets all workers leave, each when its jobs are done, and starts no more.
// It waits for them until ctx ends.
func (p *Pools) Drain(ctx context.Context) {
	p.mu.Lock()
	p.drained = true
	p.mu.Unlock()
	var leaving []*worker
	for _, one := range p.all() {
		leaving = append(leaving, one.drain()...)
	}
	for _, w := range leaving {
		select {
		case <-w.gone:
		case <-ctx.Done():
			return
		}
	}
}

// Close ends all workers and waits for them. Jobs that they hold go back to the
// queue when the engine is next opened.
func (p *Pools) Close() {
	p.stop()
	for _, one := range p.all() { // what its workers say until they are gone still counts
		one.close()
	}
	p.mu.Lock()
	p.pools = map[string]*pool{}
	p.mu.Unlock()
	p.spread.Wait()
}
