// Package worker runs the workers of endpoints: it starts, feeds, watches, scales and
// ends them.
//
// # The life of a worker
//
// Events (state.go) change a worker's state as follows; other combinations change
// nothing. The columns are devicesRefused, devicesGranted, jobRequested, jobTaken,
// lastJobGone, workerFailed and shutdown:
//
//	              refused    granted       requested  taken    gone  failed     shutdown
//	INITIALIZING  THROTTLED                IDLE       RUNNING        UNHEALTHY  ENDING
//	THROTTLED                INITIALIZING                            UNHEALTHY  ENDING
//	IDLE                                              RUNNING        UNHEALTHY  ENDING
//	RUNNING                                                    IDLE  UNHEALTHY  ENDING
//	UNHEALTHY
//	ENDING
//
// Apart from that, a worker passes through these phases:
//
//	takes jobs  until drain: its pool doesn't need it, or it can't work any more
//	drains      until its last job ends, it is killed, or its process exits
//	ends        its process is killed and its jobs are requeued (serve)
//	is gone     its pool keeps its log for a while (recordEnd)
//
// # Locks
//
// Pools holds pools, a pool holds workers, and a worker holds jobs. Each has one lock;
// they are taken in this order. Workers report to their poolCore, which has the back-off
// and the waiting requests of a load balancer, and doesn't know the workers.
package worker

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Queue is the part of the engine that pools and workers use.
type Queue interface {
	Take(ctx context.Context, t engine.Take) ([]engine.Taken, error)
	Report(ctx context.Context, ref engine.Ref, r engine.Report) (engine.Directive, error)
	ReportAndTake(ctx context.Context, ref engine.Ref, r engine.Report, next engine.Take, onRecorded func(engine.Directive, error)) []engine.Taken
	WaitUntilStored(ctx context.Context, ref engine.Ref) error
	Holds(ctx context.Context, ref engine.Ref) (bool, error)
	Watch(endpoint, id string) *engine.Watch
	Load(ctx context.Context, endpoint string) (engine.Load, error)
}

// Meter records the running workers for billing. Its calls don't block.
type Meter interface {
	Begin(worker string, e Endpoint, p Placement)
	End(worker string)
}

// Endpoint is the configuration of an endpoint's workers.
type Endpoint struct {
	ID string
	store.Container
	Version  int64      // of the worker settings; workers of other versions are stale
	GPU      *store.GPU // GPUs that a worker needs; nil means none
	CPU      []store.CPU
	Volumes  []string // ids of network volumes; workers mount the first
	Balanced bool     // workers serve HTTP behind a load balancer, without a queue

	DataCenters []string // allowed data centers; empty means any
	Template    string   // id of the endpoint's template, or ""

	Min, Max    int
	IdleTimeout time.Duration     // before an idle worker ends
	Timeout     time.Duration     // of an execution; 0 if never set
	Leadership  engine.Leadership // of this process; zero if only one process runs the endpoints
	ByRequests  bool              // scale by REQUEST_COUNT; false means QUEUE_DELAY
	ScalerValue float64           // requests per worker, or seconds that a job may wait
}

type Config struct {
	Queue Queue
	// Programs resolves images that aren't built in. Nil resolves none.
	Programs run.Programs
	// URL is the deployment's address for workers. If it is empty, workers can't be processes.
	URL string
	// Devices allocates GPUs. If it is nil, or has neither GPUs nor a driver, the workers of endpoints
	// with GPUs run on the CPU. With a driver but no GPUs, they wait until it reports some.
	Devices *gpu.Allocator
	// Catalog has stock and data centers. Nil means the built-in catalog, which doesn't limit stock.
	Catalog *catalog.Source
	// MayScale reports whether a process with a leadership may start workers. Nil means always.
	MayScale func(engine.Leadership) bool
	// Meter may be nil.
	Meter Meter
	// Sample measures a device, for the log of a job's end. It may be nil.
	Sample func(uuid string) (gpu.Sample, error)
	// Volume returns the mount of a network volume; the caller sets its Path. Nil means there are no volumes.
	Volume func(ctx context.Context, id string) (run.Mount, error)
	// Credentials returns the credentials of a registry auth. Nil means there are none.
	Credentials func(ctx context.Context, id string) (store.Credentials, error)
	Secrets     run.Resolver
	// LogTo gets each line of the workers' logs, prefixed with the worker's id. It may be nil.
	LogTo  io.Writer
	Clock  *clock.Clock
	Logger *slog.Logger

	allPools *Pools // a worker must not hold a lock when it calls a method of allPools
}

// Pools manages the workers of all endpoints.
type Pools struct {
	config Config
	ctx    context.Context // ends with Close
	stop   context.CancelFunc

	mu      sync.Mutex
	pools   map[string]*pool // by queue: an endpoint's id, or its BatchQueue
	removed []*pool          // removed pools whose workers haven't exited yet
	drained bool             // no more workers may start

	startedWorkers atomic.Int64 // so far
}

func New(c Config) *Pools {
	if c.Programs == nil {
		c.Programs = run.NoPrograms{}
	}
	c.Programs = programs{c.Programs}
	p := &Pools{config: c, pools: map[string]*pool{}}
	p.config.allPools = p
	p.ctx, p.stop = context.WithCancel(context.Background())
	if c.Devices.HasGPUs() {
		c.Devices.OnFreed(p.retryAll)
		c.Devices.OnBusy(p.makeRoom)
	} else {
		p.config.Devices = nil
	}
	return p
}

// Set applies an endpoint's settings and starts its pool. Other versions' workers leave after their jobs.
func (p *Pools) Set(e Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch pool := p.pools[e.ID]; {
	case p.ctx.Err() != nil || p.drained && pool == nil:
	case pool != nil:
		pool.update(e)
		if batch := p.pools[engine.BatchQueue(e.ID)]; batch != nil {
			batch.update(batchSettings(e))
		}
	default:
		p.pools[e.ID] = startPool(p.ctx, p.config, e)
	}
}

// Remove ends the workers of an endpoint that was deleted, or that this process no longer leads.
func (p *Pools) Remove(endpoint string) {
	p.mu.Lock()
	var removed []*pool
	for _, queue := range []string{endpoint, engine.BatchQueue(endpoint)} {
		if pool := p.pools[queue]; pool != nil {
			removed = append(removed, pool)
			delete(p.pools, queue)
		}
	}
	p.removed = append(p.removed, removed...)
	p.mu.Unlock()
	for _, pool := range removed {
		pool.close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removed = slices.DeleteFunc(p.removed, func(pool *pool) bool { return slices.Contains(removed, pool) })
}

// Leadership returns the leadership under which this process runs an endpoint's workers, if it does.
func (p *Pools) Leadership(endpoint string) (engine.Leadership, bool) {
	pool := p.pool(endpoint)
	if pool == nil {
		return engine.Leadership{}, false
	}
	return pool.settings().Leadership, true
}

// Queues returns the names of the queues whose workers this process runs.
func (p *Pools) Queues() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.pools))
}

// HasNoWorker reports whether an endpoint has no worker here, not even one that is shutting down.
func (p *Pools) HasNoWorker(endpoint string) bool {
	return !slices.ContainsFunc(p.poolsOf(endpoint), func(pool *pool) bool { return pool.find(func(*worker) bool { return true }) != nil })
}

// CheckLoad compares a pool's workers with its queue. A batch's first request starts the pool of its queue.
func (p *Pools) CheckLoad(queue string) {
	if pool := p.pool(queue); pool != nil {
		pool.jobsChanged()
	} else if engine.IsBatchQueue(queue) {
		p.startBatch(engine.EndpointOf(queue))
	}
}

func (p *Pools) pool(queue string) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pools[queue]
}

func (p *Pools) all() []*pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.pools))
}

// anyWorker returns a live worker of any endpoint, even a removed one, for which test is true, or nil.
func (p *Pools) anyWorker(test func(w *worker) bool) *worker {
	p.mu.Lock()
	pools := slices.AppendSeq(slices.Clone(p.removed), maps.Values(p.pools))
	p.mu.Unlock()
	for _, pool := range pools {
		if w := pool.find(test); w != nil {
			return w
		}
	}
	return nil
}

// Drain starts no more workers, and waits until all have exited after their jobs, or ctx ends.
func (p *Pools) Drain(ctx context.Context) {
	p.mu.Lock()
	p.drained = true
	p.mu.Unlock()
	var leaving []*worker
	for _, pool := range p.all() {
		leaving = append(leaving, pool.drain()...)
	}
	for _, w := range leaving {
		select {
		case <-w.gone:
		case <-ctx.Done():
			return
		}
	}
}

// Close ends all workers and waits for them. Their jobs return to the queue when the engine is closed.
func (p *Pools) Close() {
	p.stop()
	for _, pool := range p.all() { // before the map is cleared: workers may report until they are gone
		pool.close()
	}
	p.mu.Lock()
	p.pools = map[string]*pool{}
	p.mu.Unlock()
}
