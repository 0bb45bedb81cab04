// Package jobrunner is a deployment of the management APIs v1 and v2 and of
// the job API in one process, over one store.
package jobrunner

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/balancer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/front"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metering"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/node"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/view"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/volume"
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
	bills   metering.Bills
	catalog *catalog.Source // nil: what is built in
	engine  *engine.Engine
	pools   *worker.Pools
	pods    *pod.Pods
	volumes *volume.Volumes
	node    *node.Node
	news    atomic.Pointer[node.Node] // node, while it heeds what others announce
	machine string                    // the deployment's id
	log     *slog.Logger
	limits  *limits.Shared // nil: requests are counted here alone
	added   *apikey.Table  // nil: a file has the added keys
	metrics *metrics.Metrics
	working atomic.Pointer[worker.Pools] // pools, once they are told of queues
	page    atomic.Pointer[page.Page]    // once there is something to show
	gpus    *gpu.Allocator
	handler http.Handler
	closers []func() // Close calls them, the last one first
}

func (j *Jobrunner) onClose(f func()) { j.closers = append(j.closers, f) }

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
	j := &Jobrunner{clock: new(clock.Clock), log: c.Logger, gpus: gpu.NewAllocator(c.GPUs)}
	stored := sqldb.Config{Dir: c.DataDir, URL: c.Engine, Connections: c.EngineConnections, Memory: c.StateMemory, Logger: c.Logger}
	if c.AdminClock {
		stored.Watch = j.clock.Work
	}
	if j.db, err = sqldb.Open(ctx, stored); err != nil {
		return nil, err
	}
	if err := j.start(ctx, c, hooks); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (j *Jobrunner) start(ctx context.Context, c Config, hooks webhook.Policy) error {
	if err := j.openState(ctx, c); err != nil {
		return err
	}
	shown := &view.View{Store: j.store, Meter: j.bills.Meter, Clock: j.clock, Inventory: c.GPUs, GPUOwners: j.gpus.Owners, PodPrice: j.bills.PodPrice}
	j.metrics = metrics.New(metrics.Config{Source: view.Metrics{View: shown}, Clock: j.clock, Logger: c.Logger, Version: c.Version})
	if err := j.openJobs(ctx, c, hooks); err != nil {
		return err
	}
	if err := j.startWork(ctx, c); err != nil {
		return err
	}
	shown.Engine, shown.Pools, shown.Pods, shown.PodReason = j.engine, j.pools, j.pods, j.node.PodReason
	return j.serve(ctx, c, hooks, shown)
}

// openState opens what the database and the data folder have of management objects.
func (j *Jobrunner) openState(ctx context.Context, c Config) (err error) {
	if err := j.correctClock(ctx); err != nil {
		return err
	}
	if c.Catalog != "" {
		if j.catalog, err = catalog.Open(c.Catalog, j.clock, c.Logger); err != nil {
			return err
		}
		j.onClose(j.catalog.Close)
	}
	j.db.BeforeBreaking(node.RefuseWhileOthersRun(j.db))
	if j.store, err = store.Open(ctx, j.db, j.clock); err != nil {
		return err
	}
	j.store.UseCatalog(j.catalog)
	secretKey := c.SecretKey
	if secretKey == "" && c.DataDir != "" {
		secretKey = filepath.Join(c.DataDir, store.SecretKeyFile)
	}
	j.store.SecretKey(secretKey)
	meter, err := billing.Open(ctx, billing.Config{DB: j.db, Clock: j.clock, Logger: c.Logger})
	if err != nil {
		return err
	}
	j.onClose(meter.Close)
	j.bills = metering.Bills{Meter: meter, Store: j.store, Catalog: j.catalog, Logger: c.Logger}
	j.store.OnVolumeChange(j.bills.VolumeChanged)
	changed := j.catalog.Changed()
	if err := j.bills.SettleVolumes(ctx); err != nil {
		return err
	}
	if j.catalog != nil {
		j.inBackground(ctx, func(ctx context.Context) { j.bills.FollowPrices(ctx, changed) })
	}
	j.machine, err = node.MachineID(c.DataDir)
	return err
}

// openJobs opens the job engine and starts calling webhooks.
func (j *Jobrunner) openJobs(ctx context.Context, c Config, hooks webhook.Policy) (err error) {
	background := context.WithoutCancel(ctx)
	heed := func(kind, id string) {
		if n := j.news.Load(); n != nil { // before, what others announce is read anyway
			n.HandleAnnouncement(background, kind, id)
		}
	}
	if j.engine, err = engine.Open(ctx, engine.Config{
		DB: j.db, Clock: j.clock, Logger: c.Logger, Observe: j.recordEvent(c.OnJob), Spool: spoolDir(c.DataDir),
		Node: engine.Node{URL: cmp.Or(c.NodeURL, c.URL), Machine: j.machine}, News: heed,
	}); err != nil {
		return err
	}
	j.onClose(j.engine.Close)
	j.onClose(webhook.Start(webhook.Config{Queue: j.engine, Clock: j.clock, Policy: hooks, Logger: c.Logger, Observe: j.metrics.Webhook}).Close)
	return nil
}

// startWork starts pods, and workers of the endpoints that this node leads.
func (j *Jobrunner) startWork(ctx context.Context, c Config) error {
	mounted := func(id string) bool { return j.pools.Mounts(id) || j.pods.Mounts(id) }
	j.volumes = volume.New(volume.Config{Data: c.DataDir, Store: j.store, Keeper: c.Volumes, Known: j.bills.Meter.HasVolume, Mounted: mounted, Clock: j.clock, Logger: c.Logger})
	j.onClose(func() {
		if err := j.volumes.Close(); err != nil {
			j.log.Error("removing the folders of network volumes failed", "error", err)
		}
	})
	j.onClose(j.gpus.Close)
	j.pools = worker.New(j.workerConfig(c))
	j.onClose(j.pools.Close)
	if err := j.startPods(ctx, c); err != nil { // before workers take their GPUs
		return err
	}
	if err := j.volumes.Start(ctx); err != nil { // before Settle starts workers that mount them
		return err
	}
	j.onClose(j.volumes.Stop)
	j.node = node.New(node.Config{
		DB: j.db, Engine: j.engine, Store: j.store, Pools: j.pools, Pods: j.pods, Machine: j.machine, Logger: c.Logger,
		Round: j.round, LimitReached: func(key string) { j.limits.ReturnUnused(key) },
	})
	j.onClose(j.node.Close)
	j.working.Store(j.pools)
	return j.node.Settle(ctx)
}

// round is a node's, on a shared database, once a second.
func (j *Jobrunner) round(ctx context.Context, minute bool) error {
	err := j.added.Reload(ctx)
	if err == nil {
		err = j.limits.Sweep(ctx, minute)
	}
	if err == nil && minute {
		err = j.correctClock(ctx)
	}
	return err
}

// serve creates the handler of all requests, and begins to follow what other nodes do.
func (j *Jobrunner) serve(ctx context.Context, c Config, hooks webhook.Policy, shown *view.View) error {
	keys, added, err := apikey.Open(ctx, c.APIKey, cmp.Or(c.KeyDir, c.DataDir), j.db, j.clock.Now, c.Logger)
	if err != nil {
		return err
	}
	j.added = added
	background := context.WithoutCancel(ctx)
	queues := jobapi.NewEndpoints(j.store.Endpoint, j.db.Shared())
	j.store.OnEndpointChange(queues.Changed)
	j.store.OnEndpointChange(func(id string) {
		j.node.Sync(background, id)
		j.engine.Announce(engine.EndpointChanged, id)
	})
	limiter, err := j.limiter(ctx)
	if err != nil {
		return err
	}
	var quotas *mgmt.SharedQuotas // nil: requests are counted here alone
	if j.db.Shared() && c.ManagementLimits {
		if quotas, err = mgmt.NewSharedQuotas(ctx, j.db, j.clock); err != nil {
			return err
		}
	}
	memory := cmp.Or(c.BodyMemory, httplimit.DefaultMemory()) / 2
	bodies := httplimit.NewMemory(memory)
	management := mgmt.New(mgmt.Config{
		Bodies: bodies, Store: j.store, Keys: keys, Clock: j.clock, Logger: c.Logger, Limits: c.ManagementLimits, Quotas: quotas, Catalog: j.catalog, Meter: j.bills.Meter,
		PodPrice: j.bills.PodPrice, Stock: j.gpus.Stock, Workers: j.pools, Pods: j.pods, PodReason: j.node.PodReason, Machine: j.machine, Sample: c.GPUs.Sample,
	})
	jobs := jobapi.New(jobapi.Config{
		Limiter: limiter, Running: j.node.Running,
		Engine: j.engine, Endpoint: queues.Find, Workers: j.workers, Queued: j.pools.Queued, Failure: j.node.Failure, Webhook: hooks.Check,
		Clock: j.clock, Keys: keys, NoLimits: c.NoJobLimits, Logger: c.Logger,
		Bodies: bodies, Answers: httplimit.NewMemory(memory),
	})
	workers := workerapi.New(workerapi.Config{Workers: j.pools, Bodies: bodies, Logger: c.Logger})
	balance := balancer.New(balancer.Config{Workers: j.pools, Keys: keys, Clock: j.clock, Logger: c.Logger})
	apis := j.node.Forward(j.node.Gather(front.Route(management, jobs, workers, balance, j.pools.Balanced)))
	j.openPage(c, keys, shown, apis)
	if c.AdminClock {
		apis = front.Clock(j.clock, keys, j.pools.OffClock, j.bills.Meter.Checkpoint, apis)
	}
	j.handler = httplimit.Bodies(front.New(front.Config{
		APIs: apis, Page: j.node.ForwardPage(j.page.Load()), Metrics: j.metrics, Keys: keys, Ready: j.node.Unready, Remote: c.Remote, Profile: c.Profile, Logger: c.Logger,
	}))
	if j.db.Shared() {
		j.news.Store(j.node)
		j.node.Follow(ctx)
	} else {
		j.inBackground(ctx, j.watchClock)
	}
	return nil
}

// openPage creates the page, whose requests apis answers.
func (j *Jobrunner) openPage(c Config, keys *apikey.Keys, shown *view.View, apis http.Handler) {
	call := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" { // a browser that used the printed link may do everything
			r.Header.Set("Authorization", "Bearer "+c.APIKey)
		}
		if r.Method == http.MethodGet {
			apis.ServeHTTP(w, r)
			return
		}
		front.Observe(c.Logger, j.metrics, apis).ServeHTTP(w, r) // changes are logged as any client's
	}
	p := page.Config{Source: shown, API: call, Keys: keys, Clock: j.clock, Logger: c.Logger, Version: c.Version}
	if j.db.Shared() {
		p.Shared, p.Others, p.Node, p.Machine = true, j.node.AskPages(c.APIKey), cmp.Or(c.NodeURL, c.URL), j.machine
	}
	j.page.Store(page.New(p))
	j.onClose(j.page.Load().Close)
}

// PageCode is for a link to the page, /#code=…: it lets one browser in, once,
// within an hour.
func (j *Jobrunner) PageCode() string { return j.page.Load().Code() }

// recordEvent passes events of jobs to the metrics, the page, and also to another function.
// The page's charts are about the jobs of /run and /runsync alone.
func (j *Jobrunner) recordEvent(also func(engine.Event)) func(engine.Event) {
	return func(e engine.Event) {
		j.metrics.Job(e)
		if engine.IsBatchQueue(e.Endpoint) {
			if pools := j.working.Load(); pools != nil && e.To == engine.InQueue {
				pools.Queued(e.Endpoint)
			}
		} else if p := j.page.Load(); p != nil {
			p.Job(e)
		}
		if also != nil {
			also(e)
		}
	}
}

// AliveRoute is the path of a probe, without a key, for those who restart jobrunners.
const AliveRoute = front.AliveRoute

const reportsFolder = "reports" // of the data folder

// StateFiles are the names of what the data folder has of the state beside the database:
// reports that it could not take yet, the deployment's id and its further keys.
func StateFiles() []string { return []string{reportsFolder, node.MachineFile, apikey.FileName} }

// spoolDir is where job reports are stored while the database is unavailable.
func spoolDir(data string) string {
	if data == "" {
		return ""
	}
	return filepath.Join(data, reportsFolder)
}

// Outdated is closed once another jobrunner has changed the shared database in a way
// that this version can't work with: this one answers 503, and is to be closed.
func (j *Jobrunner) Outdated() <-chan struct{} { return j.node.Outdated() }

// Handler serves every path of the deployment.
func (j *Jobrunner) Handler() http.Handler { return j.handler }

// Drain has the pods end, lets workers end their jobs, hands them no more, and waits
// for that until ctx ends. The deployment is to be served meanwhile, and closed after it.
func (j *Jobrunner) Drain(ctx context.Context) {
	j.node.Drain()
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
	j.news.Store(nil)
	for _, f := range slices.Backward(j.closers) {
		f()
	}
	return j.db.Close()
}
