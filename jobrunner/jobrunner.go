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
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
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
	// several deployments may share, instead of the data folder. It takes over keys
	// that were added to the folder.
	Engine string
	// EngineConnections bounds the connections to it; 0 is sqldb.DefaultConnections.
	EngineConnections int
	// APIKey is the key that opens everything. Those that were added to the data
	// folder open their own part.
	APIKey string
	// KeyDir is the folder of the keys that were added, where it is not DataDir.
	KeyDir string
	// SecretKey is the file of the key that encrypts account secrets, which nodes on one
	// Engine need the same of. Empty: store.SecretKeyFile in DataDir. The first secret makes
	// it.
	SecretKey string
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
	// BodyMemory bounds the memory of request bodies and of job outputs in flight, in
	// bytes, half each; 0 is httplimit.DefaultMemory.
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
	// Catalog is the file of what the deployment offers (docs/reference/catalog.md), which is
	// read again when it changes. Empty: what is built in.
	Catalog string
	// GPUs are what workers get of this machine's; nil is none. The caller closes
	// them, after the deployment.
	GPUs gpu.Inventory
	// URL is where workers that are processes reach the deployment, like
	// http://127.0.0.1:8420. Without it there are none.
	URL string
	// NodeURL is where other deployments on the same database reach this one; "": at URL.
	NodeURL string
	// Programs resolves images that aren't built in. Nil resolves none.
	Programs run.Programs
	// Pods resolves the images of pods that aren't built in. Nil resolves none.
	Pods run.PodPrograms
	// Volumes keeps volumes where the programs run. If nil, they are folders of this machine.
	Volumes run.VolumeKeeper
	// LogWorkers takes each line that a worker or a pod writes, behind its id; nil: none.
	LogWorkers io.Writer
	// OnJob is told of each change of a job's state, and must not wait; nil: not.
	OnJob   func(engine.Event)
	Version string // of the program, for the page and the metrics
	Logger  *slog.Logger
}

// Jobrunner is a running deployment.
type Jobrunner struct {
	db      *sqldb.DB
	clock   *clock.Clock
	store   *store.Store
	meter   *billing.Meter
	catalog *catalog.Source // nil: what is built in
	engine  *engine.Engine
	pools   *worker.Pools
	pods    *pod.Pods
	machine string // the deployment's id
	hooks   *webhook.Sender
	log     *slog.Logger
	handler http.Handler
	syncing sync.Mutex
	limits  *limits.Shared // nil: requests are counted here alone
	added   *apikey.Table  // nil: a file has the added keys
	resyncs resyncs
	metrics *metrics.Metrics
	page    atomic.Pointer[page.Page] // once there is something to show

	inventory gpu.Inventory
	gpus      *gpu.Allocator

	volumes volumes

	places   places
	started  atomic.Bool // what other processes announce counts
	draining atomic.Bool

	outdated chan struct{} // closed once this program is too old for the database

	stopPrices  func() // ends the watch over the catalog's prices; nil without one
	stopVolumes func() // ends the watch over network volumes; nil without one
	stopWatch   func() // ends the watch over what other processes change; nil without one
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
	stored := sqldb.Config{Dir: c.DataDir, URL: c.Engine, Connections: c.EngineConnections, Memory: c.StateMemory, Logger: c.Logger}
	if c.AdminClock {
		stored.Watch = clk.Work
	}
	db, err := sqldb.Open(ctx, stored)
	if err != nil {
		return nil, err
	}
	j := &Jobrunner{db: db, clock: clk, log: c.Logger, inventory: c.GPUs, gpus: gpu.NewAllocator(c.GPUs), outdated: make(chan struct{}), volumes: volumes{data: c.DataDir}}
	if err := j.start(ctx, c, clk, hooks); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (j *Jobrunner) start(ctx context.Context, c Config, clk *clock.Clock, hooks webhook.Policy) (err error) {
	if err := j.correctClock(ctx, clk); err != nil {
		return err
	}
	if c.Catalog != "" {
		if j.catalog, err = catalog.Open(c.Catalog, clk, c.Logger); err != nil {
			return err
		}
	}
	j.db.BeforeBreaking(j.refuseWhileOthersRun)
	if j.store, err = store.Open(ctx, j.db, clk); err != nil {
		return err
	}
	j.store.UseCatalog(j.catalog)
	j.store.SecretKey(c.secretKey())
	if j.meter, err = billing.Open(ctx, billing.Config{DB: j.db, Clock: clk, Logger: c.Logger}); err != nil {
		return err
	}
	j.store.OnVolumeChange(billed{j}.volumeChanged)
	changed := j.catalog.Changed()
	if err := (billed{j}).settleVolumes(ctx); err != nil {
		return err
	}
	if j.catalog != nil {
		j.stopPrices = j.inBackground(ctx, clk, func(ctx context.Context, _ *clock.Clock) { billed{j}.followPrices(ctx, changed) })
	}
	j.metrics = metrics.New(metrics.Config{Source: metricsSource{j}, Clock: clk, Logger: c.Logger, Version: c.Version})
	if j.machine, err = machineID(c.DataDir); err != nil {
		return err
	}
	background := context.WithoutCancel(ctx)
	if j.engine, err = engine.Open(ctx, engine.Config{
		DB: j.db, Clock: clk, Logger: c.Logger, Observe: j.recordEvent(c.OnJob), Spool: spoolDir(c.DataDir),
		Node: engine.Node{URL: cmp.Or(c.NodeURL, c.URL), Machine: j.machine}, News: func(kind, id string) { j.heed(background, kind, id) },
	}); err != nil {
		return err
	}
	j.hooks = webhook.Start(webhook.Config{Queue: j.engine, Clock: clk, Policy: hooks, Logger: c.Logger, Observe: j.metrics.Webhook})
	if err := j.startPods(ctx, c, clk); err != nil { // before workers take their GPUs
		return err
	}
	j.pools = worker.New(j.workerConfig(c, clk))
	if err := j.keepVolumes(ctx, c.Volumes); err != nil { // before settle starts workers that mount them
		return err
	}
	if err := j.settle(ctx); err != nil {
		return err
	}
	keys, err := j.keys(ctx, c, clk)
	if err != nil {
		return err
	}
	var apis http.Handler
	call := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" { // who has used the printed link may do everything
			r.Header.Set("Authorization", "Bearer "+c.APIKey)
		}
		if r.Method == http.MethodGet {
			apis.ServeHTTP(w, r)
			return
		}
		observe(c.Logger, j.metrics, apis).ServeHTTP(w, r) // what changes something is in the log as any client's
	}
	shown := page.Config{Source: pageSource{j}, API: call, Keys: keys, Clock: clk, Logger: c.Logger, Version: c.Version}
	if j.db.Shared() {
		shown.Shared, shown.Others, shown.Node, shown.Machine = true, j.askPages(c.APIKey), cmp.Or(c.NodeURL, c.URL), j.machine
	}
	j.page.Store(page.New(shown))
	queues := &queues{load: j.store.Endpoint, uncached: j.db.Shared(), cache: map[string]jobapi.Endpoint{}}
	j.store.OnEndpointChange(queues.changed)
	j.store.OnEndpointChange(func(id string) {
		j.sync(background, id)
		j.engine.Announce(engine.EndpointChanged, id)
	})
	limiter, err := j.limiter(ctx, clk)
	if err != nil {
		return err
	}
	var quotas *mgmt.SharedQuotas // nil: requests are counted here alone
	if j.db.Shared() && c.ManagementLimits {
		if quotas, err = mgmt.NewSharedQuotas(ctx, j.db, clk); err != nil {
			return err
		}
	}
	if j.db.Shared() {
		j.started.Store(true)
		j.stopWatch = j.follow(background, clk)
	} else {
		j.stopWatch = j.inBackground(ctx, clk, j.watchClock)
	}

	memory := cmp.Or(c.BodyMemory, httplimit.DefaultMemory()) / 2
	bodies := httplimit.NewMemory(memory)
	management := mgmt.New(mgmt.Config{Bodies: bodies, Store: j.store, Keys: keys, Clock: clk, Logger: c.Logger, Limits: c.ManagementLimits, Quotas: quotas, Catalog: j.catalog, Meter: j.meter, PodPrice: billed{j}.podPrice, Stock: j.gpus.Stock, Workers: j.pools, Pods: j.pods, PodReason: j.podReason, Machine: j.machine, Sample: c.GPUs.Sample})
	jobs := jobapi.New(jobapi.Config{
		Limiter: limiter, Running: j.running,
		Engine: j.engine, Endpoint: queues.find, Workers: j.workers, Queued: j.pools.Queued, Failure: j.failure, Webhook: hooks.Check,
		Clock: clk, Keys: keys, NoLimits: c.NoJobLimits, Logger: c.Logger,
		Bodies: bodies, Answers: httplimit.NewMemory(memory),
	})
	workers := workerapi.New(workerapi.Config{Workers: j.pools, Bodies: bodies, Logger: c.Logger})
	balance := balancer.New(balancer.Config{Workers: j.pools, Keys: keys, Clock: clk, Logger: c.Logger})
	apis = j.forward(j.gather(route(management, jobs, workers, balance, j.pools.Balanced)))
	handler := apis
	if c.AdminClock {
		handler = serveClock(clk, keys, j.pools.OffClock, j.meter.Checkpoint, handler)
	}
	j.handler = httplimit.Bodies(observe(c.Logger, j.metrics, j.front(c, keys, handler)))
	return nil
}

const reportsFolder = "reports" // of the data folder

// StateFiles are the names of what the data folder has of the state beside the database:
// reports that it could not take yet, the deployment's id and its further keys.
func StateFiles() []string { return []string{reportsFolder, machineFile, apikey.FileName} }

// spoolDir is where job reports are stored while the database is unavailable.
func spoolDir(data string) string {
	if data == "" {
		return ""
	}
	return filepath.Join(data, reportsFolder)
}

// settle starts the pools of the endpoints that there are, and drops the jobs
// of one whose deletion was cut short.
func (j *Jobrunner) settle(ctx context.Context) error {
	if _, err := j.setAll(ctx, false); err != nil {
		return err
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
		err = j.apply(ctx, e)
	case errors.Is(err, store.ErrNotFound):
		j.pools.Remove(id)
		j.places.remove(id)
		err = j.engine.DropEndpoint(ctx, id)
	}
	switch {
	case err == nil:
	case engine.Temporary(err):
		j.resyncs.later(id, func() { j.sync(ctx, id) })
	default:
		j.log.ErrorContext(ctx, "applying an endpoint's change failed: it takes effect at the next start", "endpoint", id, "error", err)
	}
}

// Outdated is closed once another jobrunner has changed the shared database in a way
// that this version can't work with: this one answers 503, and is to be closed.
func (j *Jobrunner) Outdated() <-chan struct{} { return j.outdated }

// Handler serves every path of the deployment.
func (j *Jobrunner) Handler() http.Handler { return j.handler }

// Drain has the pods end, lets workers end their jobs, hands them no more, and waits
// for that until ctx ends. The deployment is to be served meanwhile, and closed after it.
func (j *Jobrunner) Drain(ctx context.Context) {
	j.draining.Store(true)
	j.pods.Stop()
	j.pools.Drain(ctx)
}

// Running counts the jobs that workers of this process run.
func (j *Jobrunner) Running() (n int) {
	for _, endpoint := range j.engine.Endpoints() {
		n += min(j.engine.Counts(endpoint).InProgress, j.pools.Counts(endpoint).Running)
	}
	return n
}

// Close ends workers and engine and closes the state. Jobs that run are queued
// again when the state is next opened.
func (j *Jobrunner) Close() error {
	j.started.Store(false)
	if j.stopWatch != nil {
		j.stopWatch()
	}
	if j.stopVolumes != nil {
		j.stopVolumes()
	}
	if j.stopPrices != nil {
		j.stopPrices()
	}
	j.resyncs.close()
	if p := j.page.Load(); p != nil {
		p.Close()
	}
	if j.pods != nil {
		j.pods.Close()
	}
	if j.pools != nil {
		j.pools.Close()
	}
	if err := j.volumes.close(); err != nil {
		j.log.Error("removing the folders of network volumes failed", "error", err)
	}
	j.gpus.Close()
	if j.meter != nil {
		j.meter.Close()
	}
	j.catalog.Close()
	if j.hooks != nil {
		j.hooks.Close()
	}
	if j.engine != nil {
		j.engine.Close()
	}
	return j.db.Close()
}
