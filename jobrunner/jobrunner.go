// Package jobrunner is a deployment of the management APIs v1 and v2 and of
// the job API in one process, over one store.
package jobrunner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/balancer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/webhook"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// MaxStateMemory is what a state in memory may have, in bytes.
const MaxStateMemory = sqldb.MaxMemory

// Config says what a deployment is.
type Config struct {
	// DataDir holds the state. Empty keeps it in memory: it ends with Close.
	DataDir string
	// Engine is the URL of a PostgreSQL database that holds the state, which
	// several deployments may share, instead of the data folder. Keys that were
	// added stay in the folder.
	Engine string
	// APIKey is the key that opens everything. Those that were added to the data
	// folder open their own part.
	APIKey string
	// KeyDir is the folder of the keys that were added, where it is not DataDir.
	KeyDir string
	// NoJobLimits switches the limits of the job API off that say how often, how
	// many at a time, and how long a queue: for benchmarks and tests by force.
	NoJobLimits bool
	// ManagementLimits makes the management API answer 429 beyond its rate
	// limits.
	ManagementLimits bool
	// WebhookAllow names the hosts at which webhooks may be called: example.com,
	// *.example.com, an address, each with :port or without. Empty allows this
	// machine and public addresses.
	WebhookAllow []string
	// BodyMemory bounds the memory of the bodies that are being read, in bytes, and
	// as much again that of job outputs that are being answered; 0 is
	// httplimit.DefaultMemory.
	BodyMemory int64
	// StateMemory bounds a state in memory, in bytes; 0 is MaxStateMemory.
	StateMemory int64
	// AdminClock lets clients advance the deployment's clock, at /clock: for
	// tests of what takes long.
	AdminClock bool
	// Remote says that other machines may reach the deployment: /metrics then
	// asks for a key, and the page answers to any name.
	Remote bool
	// Profile serves profiles of the process at /debug/pprof/, which Remote rules
	// out.
	Profile bool
	// GPUs are what workers get of this machine's; nil is none. The caller closes
	// them, after the deployment.
	GPUs gpu.Inventory
	// URL is where workers that are processes reach the deployment, like
	// http://127.0.0.1:8420. Without it there are none.
	URL string
	// Programs say what the images mean that are not built in; nil: nothing.
	Programs worker.Programs
	// LogWorkers takes each line that a worker writes, behind its id; nil: none.
	LogWorkers io.Writer
	Version    string // of the program, for the page and the metrics
	Logger     *slog.Logger
}

// Jobrunner is a running deployment.
type Jobrunner struct {
	db      *sqldb.DB
	store   *store.Store
	engine  *engine.Engine
	pools   *worker.Pools
	hooks   *webhook.Sender
	log     *slog.Logger
	handler http.Handler
	syncing sync.Mutex
	resyncs resyncs
	metrics *metrics.Metrics
	page    atomic.Pointer[page.Page] // once there is something to show

	inventory gpu.Inventory
	gpus      *gpu.Allocator

	volumes volumes

	stopWatch func() // ends the watch over what other processes change; nil without one
}

// New opens the state and starts the workers that it asks for. The caller ends
// the deployment with Close.
func New(ctx context.Context, c Config) (*Jobrunner, error) {
	if c.APIKey == "" {
		return nil, errors.New("a deployment needs an API key")
	}
	if c.Profile && c.Remote {
		return nil, errors.New("profiles tell whoever asks how the process works: they are for this machine alone, and other machines may reach this deployment")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.GPUs == nil {
		c.GPUs = gpu.None()
	}
	hooks, err := webhook.NewPolicy(c.WebhookAllow, c.Remote)
	if err != nil {
		return nil, err
	}
	clk := new(clock.Clock)
	stored := sqldb.Config{Dir: c.DataDir, URL: c.Engine, Memory: c.StateMemory, Logger: c.Logger}
	if c.AdminClock {
		stored.Watch = clk.Work
	}
	db, err := sqldb.Open(ctx, stored)
	if err != nil {
		return nil, err
	}
	j := &Jobrunner{db: db, log: c.Logger, inventory: c.GPUs, gpus: gpu.NewAllocator(c.GPUs), volumes: volumes{data: c.DataDir}}
	if err := j.start(ctx, c, clk, hooks); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (j *Jobrunner) start(ctx context.Context, c Config, clk *clock.Clock, hooks webhook.Policy) (err error) {
	if err := j.correctClock(ctx, clk); err != nil {
		return err
	}
	if j.store, err = store.Open(ctx, j.db, clk); err != nil {
		return err
	}
	j.metrics = metrics.New(metrics.Config{Source: metricsSource{j}, Clock: clk, Logger: c.Logger, Version: c.Version})
	if j.engine, err = engine.Open(ctx, engine.Config{DB: j.db, Clock: clk, Logger: c.Logger, Observe: j.recordEvent, Spool: spoolDir(c.DataDir)}); err != nil {
		return err
	}
	j.hooks = webhook.Start(webhook.Config{Queue: j.engine, Clock: clk, Policy: hooks, Logger: c.Logger, Observe: j.metrics.Webhook})
	j.pools = worker.New(j.workerConfig(c, clk))
	if err := j.settle(ctx); err != nil {
		return err
	}
	keys := apikey.New(c.APIKey)
	if dir := cmp.Or(c.KeyDir, c.DataDir); dir != "" {
		if keys, err = keys.With(apikey.At(dir), c.Logger); err != nil {
			return err
		}
	}
	var jobs http.Handler
	call := func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+c.APIKey) // who is signed in may do everything
		jobs.ServeHTTP(w, r)
	}
	j.page.Store(page.New(page.Config{Source: pageSource{j}, Jobs: call, Keys: keys, Clock: clk, Logger: c.Logger, Shared: j.db.Shared(), Version: c.Version}))
	queues := &queues{load: j.store.Endpoint, uncached: j.db.Shared(), cache: map[string]jobapi.Endpoint{}}
	j.store.OnEndpointChange(queues.changed)
	j.store.OnEndpointChange(func(id string) { j.sync(context.WithoutCancel(ctx), id) })
	if j.db.Shared() {
		j.stopWatch = j.follow(context.WithoutCancel(ctx), clk)
	} else {
		j.stopWatch = j.inBackground(ctx, clk, j.watchClock)
	}

	memory := cmp.Or(c.BodyMemory, httplimit.DefaultMemory())
	bodies := httplimit.NewMemory(memory)
	management := mgmt.New(mgmt.Config{Bodies: bodies, Store: j.store, Keys: keys, Clock: clk, Logger: c.Logger, Limits: c.ManagementLimits, Stock: j.gpus.Stock, Workers: j.pools, Sample: c.GPUs.Sample})
	jobs = jobapi.New(jobapi.Config{
		Engine: j.engine, Endpoint: queues.find, Workers: j.workers, Queued: j.pools.Queued, Failure: j.pools.Failure, Webhook: hooks.Check,
		Clock: clk, Keys: keys, NoLimits: c.NoJobLimits, Logger: c.Logger,
		Bodies: bodies, Answers: httplimit.NewMemory(memory),
	})
	workers := workerapi.New(workerapi.Config{Workers: j.pools, Bodies: bodies, Logger: c.Logger})
	balance := balancer.New(balancer.Config{Workers: j.pools, Keys: keys, Clock: clk, Logger: c.Logger})
	handler := route(management, jobs, workers, balance, j.pools.Balanced)
	if c.AdminClock {
		handler = serveClock(clk, keys, j.pools.OffClock, handler)
	}
	j.handler = httplimit.Bodies(observe(c.Logger, j.metrics, j.front(c, keys, handler)))
	return nil
}

// spoolDir is where job reports are stored while the database is unavailable.
func spoolDir(data string) string {
	if data == "" {
		return ""
	}
	return filepath.Join(data, "reports")
}

// settle starts the pools of the endpoints that there are, and drops the jobs
// of one whose deletion was cut short.
func (j *Jobrunner) settle(ctx context.Context) error {
	endpoints, err := j.store.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		j.pools.Set(settings(e))
	}
	for _, id := range j.engine.Endpoints() {
		// An endpoint with jobs that is not there now was deleted; one that was not
		// there before may have been made meanwhile, by another process.
		_, err := j.store.Endpoint(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			err = j.engine.DropEndpoint(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("looking whether the endpoint %s is deleted, to drop its jobs: %w", id, err)
		}
	}
	return nil
}

// sync makes what the store says of an endpoint count. One at a time, so that
// the last one to read is the last one to set.
func (j *Jobrunner) sync(ctx context.Context, id string) {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	e, err := j.store.Endpoint(ctx, id)
	switch {
	case err == nil:
		j.pools.Set(settings(e))
	case errors.Is(err, store.ErrNotFound):
		j.pools.Remove(id)
		err = j.engine.DropEndpoint(ctx, id)
		fallthrough
	default:
		switch {
		case err == nil:
		case engine.Temporary(err):
			j.resyncs.later(id, func() { j.sync(ctx, id) })
		default:
			j.log.ErrorContext(ctx, "applying an endpoint's change failed: it takes effect at the next start", "endpoint", id, "error", err)
		}
	}
}

// Handler serves every path of the deployment.
func (j *Jobrunner) Handler() http.Handler { return j.handler }

// Drain lets workers end their jobs, hands them no more, and waits for that until
// ctx ends. The deployment is to be served meanwhile, and closed after it.
func (j *Jobrunner) Drain(ctx context.Context) { j.pools.Drain(ctx) }

// Close ends workers and engine and closes the state. Jobs that run are queued
// again when the state is next opened.
func (j *Jobrunner) Close() error {
	if j.stopWatch != nil {
		j.stopWatch()
	}
	j.resyncs.close()
	if p := j.page.Load(); p != nil {
		p.Close()
	}
	if j.pools != nil {
		j.pools.Close()
	}
	if err := j.volumes.close(); err != nil {
		j.log.Error("removing the folders of network volumes failed", "error", err)
	}
	j.gpus.Close()
	if j.hooks != nil {
		j.hooks.Close()
	}
	if j.engine != nil {
		j.engine.Close()
	}
	return j.db.Close()
}
