// Package jobrunner assembles a deployment: the management APIs v1 and v2 and the job API in one process.
package jobrunner

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/balancer"
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

type Config struct {
	// DataDir is the folder of the state. If it is empty, the state is in memory until Close.
	DataDir string
	// MakeTemp creates the folder of volumes if DataDir is empty. Close deletes it. Nil uses os.MkdirTemp.
	MakeTemp func() (string, error)
	// NoSync acknowledges commits before a flush: they survive a crash of the process, but not of the machine.
	NoSync bool
	// DatabaseURL is the URL of a PostgreSQL database for the state instead of the data folder. Several
	// nodes of a deployment may share it. New moves the added keys from KeyDir to the database.
	DatabaseURL string
	// DatabaseConnections limits the connections to the database; 0 is sqldb.DefaultConnections.
	DatabaseConnections int
	// APIKey is the key with all rights. More keys, whose rights can be restricted, are added at run time.
	APIKey string
	// KeyDir is the folder of the added keys; "" is DataDir.
	KeyDir string
	// SecretKeyFile has the key that encrypts account secrets; "" is store.SecretKeyFile in DataDir.
	// All nodes on one database need the same key. The first secret creates the file.
	SecretKeyFile string
	// NoJobLimits disables the job API's limits of rates, concurrency and queues, for benchmarks and load tests.
	NoJobLimits bool
	// ManagementLimits enables the rate limits of the management API.
	ManagementLimits bool
	// WebhookAllow lists the only hosts that webhooks may call: example.com, *.example.com or
	// an address, each optionally with :port. If it is empty, webhooks may call public
	// addresses and, unless Remote is set, this machine.
	WebhookAllow []string
	// BodyMemory limits request bodies, results of workers, job outputs and webhook calls in flight, to a quarter each; 0 is httplimit.DefaultMemory.
	BodyMemory int64
	// StateMemory limits a state in memory, in bytes; 0 is sqldb.MaxMemory.
	StateMemory int64
	// AdminClock lets clients advance the deployment's clock at /clock, for tests.
	AdminClock bool
	// Remote lets other machines in: /metrics needs a key, and the page accepts any host name.
	Remote bool
	// Profile serves profiles of the process at /debug/pprof/. It can't be combined with Remote.
	Profile bool
	// Catalog is the catalog file (docs/reference/catalog.md), read again when it changes; "" is the built-in catalog.
	Catalog string
	// GPUs are this machine's GPUs; nil means none. The caller closes them after the deployment.
	GPUs gpu.Inventory
	// URL is where worker processes reach the deployment, such as http://127.0.0.1:8420. If
	// it is empty, the deployment starts no worker processes.
	URL string
	// NodeURL is where other nodes on the same database reach this node; "" is URL.
	NodeURL string
	// Programs resolves workers' images that aren't built in. Nil resolves none.
	Programs run.Programs
	// Pods resolves pods' images that aren't built in. Nil resolves none.
	Pods run.PodPrograms
	// Volumes stores volumes where the programs run. If nil, they are folders of this machine.
	Volumes run.VolumeKeeper
	// LogWorkers, if set, receives workers' and pods' output, with their id before each line.
	LogWorkers io.Writer
	// OnJob is called on every change of a job's state, if it isn't nil. It must not block.
	OnJob   func(engine.Event)
	Version string // of the program, for the page and the metrics
	Logger  *slog.Logger
}

// Jobrunner is a running deployment.
type Jobrunner struct {
	db         *sqldb.DB
	clock      *clock.Clock
	timekeeper *node.Timekeeper
	folderID   string // of the data folder
	keys       *apikey.Keys
	keyTable   *apikey.Table   // the added keys; nil if they are in a file
	catalog    *catalog.Source // nil: the built-in catalog
	store      *store.Store
	bills      *metering.Bills
	gpus       *gpu.Allocator
	metrics    *metrics.Metrics
	engine     *engine.Engine
	volumes    *volume.Volumes
	pools      *worker.Pools
	pods       *pod.Pods
	endpoints  *jobapi.Endpoints
	node       *node.Node
	handler    http.Handler
	closers    []func() // called by Close in reverse order

	// These receive events of jobs. They are nil while the deployment starts.
	readyPools atomic.Pointer[worker.Pools]
	page       atomic.Pointer[page.Page]
}

func (j *Jobrunner) onClose(f func()) { j.closers = append(j.closers, f) }

// New opens the state and starts the deployment. The caller must call Close.
func New(ctx context.Context, c Config) (*Jobrunner, error) {
	if c.APIKey == "" {
		return nil, errors.New("a deployment needs an API key")
	}
	if c.Profile && c.Remote {
		return nil, errors.New("profiles show everybody how the process works, and other machines may reach this deployment: turn off the profiles or the remote access")
	}
	c.Logger, c.GPUs = cmp.Or(c.Logger, slog.New(slog.DiscardHandler)), cmp.Or(c.GPUs, gpu.NoGPUs())
	c.KeyDir, c.NodeURL = cmp.Or(c.KeyDir, c.DataDir), cmp.Or(c.NodeURL, c.URL)
	webhookPolicy, err := webhook.NewPolicy(c.WebhookAllow, c.Remote)
	if err != nil {
		return nil, err
	}
	j := &Jobrunner{clock: new(clock.Clock), gpus: gpu.NewAllocator(c.GPUs)}
	dbConfig := sqldb.Config{Dir: c.DataDir, NoSync: c.NoSync, URL: c.DatabaseURL, Connections: c.DatabaseConnections, Memory: c.StateMemory, Logger: c.Logger}
	if c.AdminClock {
		dbConfig.Watch = j.clock.BeginWork
	}
	if j.db, err = sqldb.Open(ctx, dbConfig); err != nil {
		return nil, err
	}
	if err := j.start(ctx, c, webhookPolicy); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (j *Jobrunner) start(ctx context.Context, c Config, webhookPolicy webhook.Policy) error {
	if err := j.openState(ctx, c); err != nil {
		return err
	}
	source := &view.View{Store: j.store, Meter: j.bills.Meter, Clock: j.clock, Inventory: c.GPUs, Allocator: j.gpus, PodPrice: j.bills.PodPrice}
	j.metrics = metrics.New(metrics.Config{Source: source, Clock: j.clock, Logger: c.Logger, Version: c.Version})
	if err := j.openJobs(ctx, c, webhookPolicy); err != nil {
		return err
	}
	if err := j.startWork(ctx, c); err != nil {
		return err
	}
	source.Engine, source.Pools, source.Pods, source.PodReason = j.engine, j.pools, j.pods, j.node.PodReason
	if err := j.openAPIs(ctx, c, webhookPolicy, source); err != nil {
		return err
	}
	if j.db.Shared() {
		j.node.Follow(ctx)
	}
	return nil
}

// RecordRejection counts a rejected connection as a request without a route that was answered 503.
func (j *Jobrunner) RecordRejection() {
	j.metrics.Begin()(new(http.Request), http.StatusServiceUnavailable)
}

// openState opens the clock, the API keys, the catalog, the store and the billing meter.
func (j *Jobrunner) openState(ctx context.Context, c Config) (err error) {
	j.db.BeforeBreaking(node.RefuseWhileOthersRun(j.db))
	if j.timekeeper, err = node.KeepTime(ctx, j.db, j.clock, c.Logger); err != nil {
		return err
	}
	j.onClose(j.timekeeper.Close)
	if j.folderID, err = node.LoadFolderID(c.DataDir); err != nil {
		return err
	}
	if j.keys, j.keyTable, err = apikey.Open(ctx, c.APIKey, c.KeyDir, j.db, j.clock, c.Logger); err != nil {
		return err
	}
	if j.catalog, err = catalog.Open(c.Catalog, j.clock, c.Logger); err != nil {
		return err
	}
	j.onClose(j.catalog.Close)
	if j.store, err = store.Open(ctx, j.db, j.clock); err != nil {
		return err
	}
	j.store.UseCatalog(j.catalog)
	if err := j.store.UseSecretKey(c.SecretKeyFile, c.DataDir); err != nil {
		return err
	}
	if err := j.store.CheckSecretKey(ctx); err != nil {
		c.Logger.Warn("workers and pods that use account secrets can't start", "error", err)
	}
	if j.bills, err = metering.Open(ctx, metering.Config{DB: j.db, Clock: j.clock, Store: j.store, Catalog: j.catalog, Logger: c.Logger}); err != nil {
		return err
	}
	j.onClose(j.bills.Close)
	return nil
}

func (j *Jobrunner) openJobs(ctx context.Context, c Config, webhookPolicy webhook.Policy) (err error) {
	if j.engine, err = engine.Open(ctx, engine.Config{
		DB: j.db, Clock: j.clock, Logger: c.Logger, Observe: j.recordEvent(c.OnJob), DataDir: c.DataDir,
		Node: engine.Node{URL: c.NodeURL, FolderID: j.folderID},
	}); err != nil {
		return err
	}
	j.onClose(j.engine.Close)
	j.onClose(webhook.Start(webhook.Config{Queue: j.engine, Clock: j.clock, Policy: webhookPolicy, Memory: c.newMemory(), Logger: c.Logger, Observe: j.metrics.Webhook}).Close)
	return nil
}

// recordEvent returns a function that passes events of jobs to the metrics, the page, and onJob if it
// isn't nil. Events of batches are passed to the pools instead of the page, whose charts exclude them.
func (j *Jobrunner) recordEvent(onJob func(engine.Event)) func(engine.Event) {
	return func(e engine.Event) {
		j.metrics.Job(e)
		if engine.IsBatchQueue(e.Endpoint) {
			if pools := j.readyPools.Load(); pools != nil && e.To == engine.InQueue {
				pools.CheckLoad(e.Endpoint)
			}
		} else if p := j.page.Load(); p != nil {
			p.RecordEvent(e)
		}
		if onJob != nil {
			onJob(e)
		}
	}
}

// startWork starts pods, and the workers of the endpoints that this node leads.
func (j *Jobrunner) startWork(ctx context.Context, c Config) error {
	isMounted := func(id string) bool { return j.pools.MountsVolume(id) || j.pods.MountsVolume(id) }
	j.volumes = volume.New(volume.Config{DataDir: c.DataDir, MakeTemp: c.MakeTemp, Store: j.store, Keeper: c.Volumes, EverHad: j.bills.Meter.EverHadVolume, IsMounted: isMounted, Clock: j.clock, Logger: c.Logger})
	j.onClose(j.volumes.Close)
	j.onClose(j.gpus.Close)
	j.pools = worker.New(worker.Config{
		Queue: j.engine, MayScale: j.engine.MayScale, Programs: c.Programs, URL: c.URL, Devices: j.gpus, Volume: j.volumes.MountOf, Credentials: j.store.Credentials,
		Secrets: j.store.ResolveSecrets, Sample: c.GPUs.Sample, LogTo: c.LogWorkers, Catalog: j.catalog, Meter: j.bills, Clock: j.clock, Logger: c.Logger,
	})
	j.onClose(j.pools.Close)
	if err := j.startPods(ctx, c); err != nil { // before workers take their GPUs
		return err
	}
	if err := j.volumes.Start(ctx); err != nil { // before StartPools starts workers that mount them
		return err
	}
	j.onClose(j.volumes.Stop)
	j.endpoints = jobapi.NewEndpoints(j.store.Endpoint, j.engine.Epoch)
	j.node = node.New(node.Config{
		DB: j.db, Engine: j.engine, Store: j.store, Pools: j.pools, Pods: j.pods, KeyTable: j.keyTable, Timekeeper: j.timekeeper, FolderID: j.folderID, Key: c.APIKey, URL: c.NodeURL,
		OnChange: j.endpoints.Invalidate, Logger: c.Logger,
	})
	j.onClose(j.node.Close)
	j.readyPools.Store(j.pools)
	return j.node.StartPools(ctx)
}

// startPods starts the pods. It adopts the pods of an earlier run with their GPUs.
func (j *Jobrunner) startPods(ctx context.Context, c Config) error {
	folder, err := j.volumes.PodsFolder()
	if err != nil {
		return err
	}
	j.pods = pod.New(pod.Config{
		Store: j.store, Programs: c.Pods, Devices: j.gpus, Driver: c.GPUs.Driver, Sample: c.GPUs.Sample, Volume: j.volumes.MountOf, Keeper: c.Volumes,
		Credentials: j.store.Credentials, Secrets: j.store.ResolveSecrets, Folder: folder, FolderID: j.folderID, SingleNode: !j.db.Shared(), Persistent: c.DataDir != "",
		Catalog: j.catalog, Meter: j.bills, LogTo: c.LogWorkers, Clock: j.clock, Logger: c.Logger,
	})
	j.onClose(j.pods.Close)
	return j.pods.Load(ctx)
}

// newMemory returns a budget of a quarter of BodyMemory. Clients' requests, workers' posts, answers and webhook calls
// have one budget each.
func (c Config) newMemory() *httplimit.Memory {
	return httplimit.NewMemory(cmp.Or(c.BodyMemory, httplimit.DefaultMemory()) / 4)
}

func (j *Jobrunner) openAPIs(ctx context.Context, c Config, webhookPolicy webhook.Policy, source *view.View) error {
	bodies := c.newMemory()
	management, err := mgmt.New(ctx, mgmt.Config{
		Bodies: bodies, DB: j.db, Store: j.store, Keys: j.keys, Clock: j.clock, Logger: c.Logger, Limits: c.ManagementLimits, Catalog: j.catalog, Meter: j.bills.Meter,
		PodPrice: j.bills.PodPrice, Stock: j.gpus.Stock, Workers: j.pools, Pods: j.pods, PodReason: j.node.PodReason, AskOtherNodes: j.node.AskPods, FolderID: j.folderID,
		Sample: c.GPUs.Sample,
	})
	if err != nil {
		return err
	}
	jobs := jobapi.New(jobapi.Config{
		Engine: j.engine, Endpoint: j.endpoints.Find, Limiter: limits.New(j.clock), Workers: j.pools.Counts, OnQueued: j.pools.CheckLoad, Failure: j.pools.Failure, Webhook: webhookPolicy.Check,
		Clock: j.clock, Keys: j.keys, NoLimits: c.NoJobLimits, Logger: c.Logger,
		Bodies: bodies, Answers: c.newMemory(),
	})
	workers := workerapi.New(workerapi.Config{Authorize: j.pools.Authorize, Bodies: c.newMemory(), Logger: c.Logger})
	balance := balancer.New(balancer.Config{Workers: j.pools, Keys: j.keys, Clock: j.clock, Logger: c.Logger})
	apis := j.node.Forward(front.Route(management, jobs, workers, balance, j.pools.Balanced))
	j.openPage(c, source, apis)
	if c.AdminClock {
		apis = front.Clock(j.clock, j.keys, j.pools.EndpointIgnoringClock, j.bills.Meter.Checkpoint, apis)
	}
	j.handler = httplimit.LimitBodies(front.New(front.Config{
		APIs: apis, Page: j.node.ForwardPage(j.page.Load()), Metrics: j.metrics, Keys: j.keys, UnreadyReason: j.node.UnreadyReason, Remote: c.Remote, Profile: c.Profile, Logger: c.Logger,
	}))
	return nil
}

func (j *Jobrunner) openPage(c Config, source *view.View, apis http.Handler) {
	p := page.Config{
		Source: source, Keys: j.keys, Key: c.APIKey, Clock: j.clock, Logger: c.Logger, API: apis.ServeHTTP, Version: c.Version,
	}
	if j.db.Shared() {
		p.AskOthers, p.Node, p.FolderID = j.node.AskPages, c.NodeURL, j.folderID
	}
	j.page.Store(page.New(p))
	j.onClose(j.page.Load().Close)
}

// PageCode returns a code for a link to the page, /#code=…. One browser can use it once, within an hour.
func (j *Jobrunner) PageCode() string { return j.page.Load().NewCode() }

// Outdated is closed once another jobrunner has made a breaking migration of the shared
// database. The deployment then answers 503, and the caller should close it.
func (j *Jobrunner) Outdated() <-chan struct{} { return j.node.Outdated() }

// Handler serves every path of the deployment.
func (j *Jobrunner) Handler() http.Handler { return j.handler }

// Drain stops the pods, hands out no more jobs, and waits until the workers have finished theirs or ctx
// ends. The caller must serve the deployment meanwhile, and close it afterwards.
func (j *Jobrunner) Drain(ctx context.Context) {
	j.node.Drain()
	j.pods.Stop()
	j.pools.Drain(ctx)
}

// Running counts the jobs that this process's workers run.
func (j *Jobrunner) Running() (n int) {
	for _, queue := range j.pools.Queues() {
		n += j.engine.Counts(queue).InProgress
	}
	return n
}

// Close stops the workers and closes the state. Running jobs go back to the queue.
func (j *Jobrunner) Close() error {
	for _, f := range slices.Backward(j.closers) {
		f()
	}
	return j.db.Close()
}
