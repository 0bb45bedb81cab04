// Package pod runs pods. A pod is a container, a local process or built in. It has its own
// GPUs, a volume that survives a restart, ports and a log.
//
// # The life of a pod
//
// The record of a pod (store.Pod) has its state. These are the only transitions (state.go). The last six
// columns are startDelayed, computeAssigned, containerStarted, containerExited, containerFailed and
// restartQueued:
//
//	              start         stop    restart   reset         replace       waits         placed    up       exited  failed  restored
//	PROVISIONING                EXITED            PROVISIONING  PROVISIONING  PROVISIONING  STARTING  RUNNING                  PROVISIONING
//	STARTING                    EXITED            STARTING      STARTING      PROVISIONING  STARTING  RUNNING  EXITED  ERROR   PROVISIONING
//	RUNNING                     EXITED  STARTING  STARTING      STARTING                              RUNNING  EXITED  ERROR   PROVISIONING
//	EXITED        PROVISIONING                    EXITED
//	ERROR         PROVISIONING                    EXITED
//
// A user's event changes the record in one transaction (Do). The pod's runner then reconciles
// what runs with the record. Each such event starts another Run (generation) of the pod. An
// event of the deployment counts only for the generation in which it happened.
//
// # Locking
//
// Pods, clusters and runners have one lock each, which are taken in this order. A runner reads
// and writes its record with syncMu held, so that it never replaces a newer record with an
// older one.
package pod

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

type Config struct {
	Store *store.Store
	// Programs resolves images that aren't built in. Nil resolves none.
	Programs run.PodPrograms
	Devices  *gpu.Allocator
	Driver   func() gpu.Driver
	Sample   func(uuid string) (gpu.Sample, error)
	// Volume returns a network volume without a mount path.
	Volume func(ctx context.Context, id string) (run.Mount, error)
	// Keeper keeps the volumes of pods; nil if they are in the pods' folders.
	Keeper      run.VolumeKeeper
	Credentials func(ctx context.Context, id string) (store.Credentials, error)
	Secrets     run.Resolver
	// Folder has a folder for each pod, with its volume and log.
	Folder string
	// FolderID is the id of this node's data folder: each node runs its own pods, even on a shared store.
	FolderID string
	// SingleNode says that no other node shares the store, so all pods are this node's.
	SingleNode bool
	// Persistent says that a later run has the same Folder and FolderID.
	Persistent bool
	Catalog    *catalog.Source // nil is the built-in catalog
	Meter      Meter
	// LogTo receives each line of a pod, after the pod's id; may be nil.
	LogTo  io.Writer
	Clock  *clock.Clock
	Logger *slog.Logger
}

type Pods struct {
	Config
	ctx        context.Context // ends with Stop
	stop       context.CancelFunc
	goroutines sync.WaitGroup

	mu       sync.Mutex
	runners  map[string]*runner
	clusters map[string]*cluster
}

// New returns Pods without any pod. Load and Sync add them.
func New(c Config) *Pods {
	if c.Programs == nil {
		c.Programs = run.NoPrograms{}
	}
	c.Programs = programs{c.Programs, c.Clock}
	p := &Pods{Config: c, runners: map[string]*runner{}, clusters: map[string]*cluster{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	c.Devices.OnFreed(func() {
		for _, r := range p.all() {
			notify.Signal(r.retry)
		}
	})
	return p
}

func (p *Pods) all() []*runner {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.runners))
}

func (p *Pods) find(id string) *runner {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runners[id]
}

// Sync reads a pod's record, and has its runner reconcile it. It doesn't wait for the runner. Pods of other nodes have none.
func (p *Pods) Sync(ctx context.Context, id string) {
	record, err := p.Store.Pod(ctx, id)
	if failed := err != nil && (!p.SingleNode || errors.Is(err, store.ErrNotFound)); p.find(id) == nil && (failed || !p.isOurs(record)) {
		return // SyncAll reads it again
	}
	p.mu.Lock()
	r := p.runners[id]
	if r == nil && p.ctx.Err() == nil {
		r = newRunner(p, id)
		p.runners[id] = r
		defer p.goroutines.Go(func() { p.runUntilDeleted(r) }) // after r.sync has read the record
	}
	p.mu.Unlock()
	if r != nil {
		r.sync(ctx)
	}
}

// SyncAll syncs the pods that other nodes on the same store changed, and pods of this node whose creation
// had no reply from the store. all are all pods of the store.
func (p *Pods) SyncAll(ctx context.Context, all []store.Pod) {
	records := make(map[string]*store.Pod, len(all))
	for i := range all {
		records[all[i].ID] = &all[i]
		if all[i].FolderID == p.FolderID && p.find(all[i].ID) == nil {
			p.Sync(ctx, all[i].ID)
		}
	}
	for _, r := range p.all() {
		if !r.hasRead(records[r.id]) {
			r.sync(ctx)
		}
	}
}

func (p *Pods) runUntilDeleted(r *runner) {
	r.serve(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		delete(p.runners, r.id)
	}
}

// Stop stops all pods without waiting. The next run of the deployment starts them again.
func (p *Pods) Stop() { p.stop() }

// Close stops all pods and waits until they are gone.
func (p *Pods) Close() {
	p.stop()
	p.goroutines.Wait()
	p.removeAllNetworks()
}

func (p *Pods) Log(id string) (*run.Log, bool) {
	r := p.find(id)
	if r == nil {
		return nil, false
	}
	return r.log.Log, true
}

// Meter meters pods. It is safe for concurrent use.
type Meter interface {
	// Started reports that a pod runs. After a restart of the deployment it may report the
	// same span again, with the same Pod.ID and From.
	Started(s Span)
	// Stopped reports that a pod no longer runs. It isn't called if the deployment was killed.
	Stopped(s Span)
}

// Span is a time during which a pod runs.
type Span struct {
	Pod  store.Pod // as it was at the start
	From time.Time
}
