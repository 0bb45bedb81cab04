// Package pod runs pods: each is a container, the process of a rule, or a part of the
// jobrunner, with GPUs of its own, a volume that outlasts it, ports and a log.
//
// # The life of a pod
//
// The record of a pod (store.Pod) has its state. What its user asks for, and what the
// deployment finds, changes the state so, and not otherwise (state.go):
//
//	              start         stop    restart   reset         replace       waits         placed    up       exited  failed  restored
//	PROVISIONING                EXITED            PROVISIONING  PROVISIONING  PROVISIONING  STARTING  RUNNING                  PROVISIONING
//	STARTING                    EXITED            STARTING      STARTING      PROVISIONING  STARTING  RUNNING  EXITED  ERROR   PROVISIONING
//	RUNNING                     EXITED  STARTING  STARTING      STARTING                              RUNNING  EXITED  ERROR   PROVISIONING
//	EXITED        PROVISIONING                    EXITED
//	ERROR         PROVISIONING                    EXITED
//	TERMINATED
//
// A user's event changes the record in one transaction (Do), and the runner of the pod
// follows: it ends what runs, and starts what is to run. Each such event is another Run
// of the pod; what the deployment finds counts for the run that it was found in alone.
//
// # Who locks what
//
// Pods knows the runners, a cluster its members, a runner what it is to do: each has one
// lock, which are taken in this order. A runner reads and writes its record with syncing held, so that what is
// read last is known last.
package pod

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Devices are the machine's GPUs, each for one owner at a time.
type Devices interface {
	Acquire(want gpu.Request, owner string) ([]gpu.Device, error)
	// AcquireForMembers gives each member of a cluster its own, or none of them any.
	AcquireForMembers(want gpu.Request, cluster string, members []string) ([][]gpu.Device, error)
	// Claim gives an owner what it had before the deployment started anew.
	Claim(uuids []string, owner string) ([]gpu.Device, error)
	Release(owner string)
	// Watch is a hint that a request that was refused may be met now.
	Watch() <-chan struct{}
}

// Config is what pods stand on.
type Config struct {
	Store *store.Store
	// Programs say what images mean that are not built in; nil: nothing.
	Programs Programs
	Devices  Devices
	// Driver is that of the GPUs.
	Driver func() gpu.Driver
	// Sample tells how a device does; nil: nobody can.
	Sample func(uuid string) (gpu.Sample, error)
	// Volume is a network volume, to be seen nowhere yet; nil: there are none.
	Volume func(ctx context.Context, id string) (worker.Mount, error)
	// RemoveVolume removes a pod's volume that is kept elsewhere than in its folder, by
	// its name; nil: there is none.
	RemoveVolume func(ctx context.Context, name string) error
	// Credentials are those of a registry auth.
	Credentials func(ctx context.Context, id string) (store.Credentials, error)
	Secrets     worker.Resolver
	// Folder has a folder for each pod: its volume and its log.
	Folder string
	// Machine is the deployment's id, which a later run of it has, too. Pods of others
	// that share the store are theirs.
	Machine string
	// Lasting says that the folder and the id are there for a later run.
	Lasting bool
	// Catalog is what pods are chosen from; nil: what is built in.
	Catalog *catalog.Source
	// Meter counts what pods hold; nil: nobody does.
	Meter Meter
	// Price is the price per hour of a pod; nil: 0.
	Price func(store.Pod) float64
	// LogTo takes each line that a pod writes, behind its id; nil: none.
	LogTo  io.Writer
	Clock  *clock.Clock
	Logger *slog.Logger
}

// Pods are the pods that this deployment runs.
type Pods struct {
	Config
	ctx     context.Context // ends with Stop
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	runners  map[string]*runner
	clusters map[string]*cluster
}

// New runs no pod yet.
func New(c Config) *Pods {
	c.Programs = programs{c.Programs, c.Clock}
	if c.Meter == nil {
		c.Meter = noMeter{}
	}
	p := &Pods{Config: c, runners: map[string]*runner{}, clusters: map[string]*cluster{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	freed := c.Devices.Watch()
	p.running.Go(func() { p.forwardFreed(freed) })
	return p
}

// forwardFreed passes the hint that devices may be free on to all that wait for some.
func (p *Pods) forwardFreed(freed <-chan struct{}) {
	for {
		select {
		case <-freed:
		case <-p.ctx.Done():
			return
		}
		for _, r := range p.all() {
			notify.Signal(r.retry)
		}
	}
}

func (p *Pods) all() []*runner {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*runner, 0, len(p.runners))
	for _, r := range p.runners {
		all = append(all, r)
	}
	return all
}

func (p *Pods) find(id string) *runner {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runners[id]
}

// Sync makes what the store says of a pod count. It does not wait for what runs.
func (p *Pods) Sync(ctx context.Context, id string) {
	p.mu.Lock()
	r := p.runners[id]
	if r == nil && p.ctx.Err() == nil {
		r = newRunner(p, id)
		p.runners[id] = r
		defer p.running.Go(func() { p.keep(r) }) // once it knows what is wanted
	}
	p.mu.Unlock()
	if r != nil {
		r.sync(ctx)
	}
}

// SyncKnown is Sync for a pod that this deployment knows, and nothing for another one.
func (p *Pods) SyncKnown(ctx context.Context, id string) {
	if r := p.find(id); r != nil {
		r.sync(ctx)
	}
}

// SyncAll makes count what other deployments changed that share the store, which has
// all these pods.
func (p *Pods) SyncAll(ctx context.Context, all []store.Pod) {
	records := make(map[string]*store.Pod, len(all))
	for i := range all {
		records[all[i].ID] = &all[i]
	}
	for _, r := range p.all() {
		if !r.knows(records[r.id]) {
			r.sync(ctx)
		}
	}
}

// keep runs a runner, and forgets it when its pod is deleted.
func (p *Pods) keep(r *runner) {
	r.serve(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		delete(p.runners, r.id)
	}
}

// Stop has all pods end, and does not wait for it. Those that ran start again with the
// next run of the deployment.
func (p *Pods) Stop() { p.stop() }

// Close ends all pods and waits until they are gone.
func (p *Pods) Close() {
	p.stop()
	p.running.Wait()
	p.removeAllNetworks()
}

// Log is what a pod wrote; false for one that is not here.
func (p *Pods) Log(id string) (*worker.Log, bool) {
	r := p.find(id)
	if r == nil {
		return nil, false
	}
	return r.log.Log, true
}

// programs are the built-in ones, and behind them those of this machine.
type programs struct {
	next  Programs
	clock *clock.Clock
}
