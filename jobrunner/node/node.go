// Package node is a jobrunner, alone or among those that share a database. One node leads an
// endpoint and has all its workers (engine/lead.go); the others pass on to it the requests
// that only it can answer.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Config is what a node works with.
type Config struct {
	DB      *sqldb.DB
	Engine  *engine.Engine
	Store   *store.Store
	Pools   *worker.Pools
	Pods    *pod.Pods
	Machine string // the deployment's id
	// Round is called after each round of Follow. minute is set once in a minute.
	Round func(ctx context.Context, minute bool) error
	// LimitReached is called when another node reached a limit of requests.
	LimitReached func(key string)
	Logger       *slog.Logger
}

// Node applies the settings of endpoints: those that it leads, or all if it is alone.
type Node struct {
	Config
	places   places
	resyncs  resyncs
	syncing  sync.Mutex
	draining atomic.Bool
	outdated chan struct{}

	following sync.WaitGroup
	cancel    context.CancelFunc // ends Follow; nil: it wasn't called
}

// New creates a node. The caller ends it with Close.
func New(c Config) *Node {
	return &Node{Config: c, places: places{endpoints: map[string]place{}}, outdated: make(chan struct{})}
}

// RefuseWhileOthersRun refuses a change of a shared database that older jobrunners can't
// work with, while some run.
func RefuseWhileOthersRun(db *sqldb.DB) func(context.Context) error {
	return func(ctx context.Context) error {
		if !db.Shared() {
			return nil
		}
		alive, err := engine.OthersAlive(ctx, db)
		if err == nil && alive > 0 {
			err = fmt.Errorf("this version changes the database in a way that older jobrunners can't work with, and %d run: stop all of them, then start this one", alive)
		}
		return err
	}
}

// Settle starts the pools of all endpoints, and drops the jobs of one whose deletion was
// interrupted.
func (n *Node) Settle(ctx context.Context) error {
	if _, err := n.setAll(ctx, false); err != nil {
		return err
	}
	for _, queue := range n.Engine.Endpoints() {
		id := engine.EndpointOf(queue)
		// An endpoint with jobs that is missing now was deleted; one that was missing
		// before may have been created since, by another node.
		_, err := n.Store.Endpoint(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			err = n.Engine.DropEndpoint(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("looking whether the endpoint %s is deleted, to drop its jobs: %w", id, err)
		}
		if engine.IsBatchQueue(queue) {
			n.Pools.Queued(queue)
		}
	}
	return nil
}

// Sync applies an endpoint as stored. One at a time, so that the last one to read is the
// last one to set.
func (n *Node) Sync(ctx context.Context, id string) {
	n.syncing.Lock()
	defer n.syncing.Unlock()
	e, err := n.Store.Endpoint(ctx, id)
	switch {
	case err == nil:
		err = n.apply(ctx, e)
	case errors.Is(err, store.ErrNotFound):
		n.Pools.Remove(id)
		n.places.remove(id)
		err = n.Engine.DropEndpoint(ctx, id)
	}
	switch {
	case err == nil:
	case engine.Temporary(err):
		n.resyncs.later(id, func() { n.Sync(ctx, id) })
	default:
		n.Logger.ErrorContext(ctx, "applying an endpoint's change failed: it takes effect at the next start", "endpoint", id, "error", err)
	}
}

// Heed acts on what another node announced. It doesn't wait.
func (n *Node) Heed(ctx context.Context, kind, id string) {
	switch kind {
	case engine.Queued:
		n.Pools.Queued(id)
	case engine.EndpointChanged, engine.LeadChanged:
		n.resyncs.soon(id, func() { n.Sync(ctx, id) })
	case engine.PodChanged:
		n.resyncs.soon("pod "+id, func() { n.Pods.SyncKnown(ctx, id) })
	case engine.LimitReached:
		n.LimitReached(id)
	}
}

// Running counts the workers of an endpoint that run a job. Those of another node are as
// many as the jobs that run.
func (n *Node) Running(endpoint string) int {
	if _, here := n.Pools.Leads(endpoint); here || !n.DB.Shared() {
		return n.Pools.Counts(endpoint).Running
	}
	return n.Engine.Counts(endpoint).InProgress
}

// PodReason is a pod's reason, or that its node is gone: nobody can tell how the pod is then,
// and it keeps the state in which it was last seen.
func (n *Node) PodReason(p store.Pod) string {
	if !n.DB.Shared() || p.Machine == n.Machine || slices.ContainsFunc(n.Engine.Nodes(), func(other engine.Node) bool { return other.Machine == p.Machine }) {
		return p.Reason
	}
	return "the jobrunner that has the pod is not there: this is how it was last seen, and what is asked of it is done when that one is back with its data folder"
}

// Drain ends claims of further endpoints.
func (n *Node) Drain() { n.draining.Store(true) }

// Unready is why requests should go elsewhere, "" if they may come. It waits for the database
// until ctx ends.
func (n *Node) Unready(ctx context.Context) string {
	if n.draining.Load() {
		return "the jobrunner is stopping"
	}
	answer := make(chan error, 1)
	go func() {
		answer <- n.DB.Read(ctx, func(r *sqldb.Reader) error {
			var one int
			return r.QueryRow("SELECT 1").Scan(&one)
		})
	}()
	select {
	case err := <-answer:
		if err == nil {
			return ""
		}
	case <-ctx.Done():
	}
	return "the database does not answer" // its own words may name its server
}

// Outdated is closed once another node has changed the shared database in a way that this
// version can't work with.
func (n *Node) Outdated() <-chan struct{} { return n.outdated }

// Close ends Follow and what Heed and Sync still have to do.
func (n *Node) Close() {
	if n.cancel != nil {
		n.cancel()
		n.following.Wait()
	}
	n.resyncs.close()
}
