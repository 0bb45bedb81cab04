// Package node implements a jobrunner that may share a database with others. One node leads
// an endpoint and runs all its workers (engine/lead.go). The other nodes forward the
// requests that only the leader can answer.
package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/durable"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

type Config struct {
	DB         *sqldb.DB
	Engine     *engine.Engine
	Store      *store.Store
	Pools      *worker.Pools
	Pods       *pod.Pods
	KeyTable   *apikey.Table // keys made with jobrunner keys add; nil if the database isn't shared
	Timekeeper *Timekeeper
	FolderID   string // id of the data folder
	Key        string // the deployment's API key
	URL        string // where other nodes reach it
	// OnChange is called when this node or another node may have changed an endpoint.
	OnChange func(id string)
	Logger   *slog.Logger
}

// Node applies the settings of the endpoints that it leads, or of all if the database isn't shared.
type Node struct {
	Config
	places   places
	resyncs  resyncs
	syncMu   sync.Mutex // held while the settings of endpoints are applied
	draining atomic.Bool
	outdated chan struct{}
	// takeover is signalled while a request waits for a leader of its endpoint.
	takeover chan struct{}

	followers sync.WaitGroup     // goroutines of Follow
	cancel    context.CancelFunc // stops Follow; nil if it wasn't called
}

// New creates a node. The caller must call Close.
func New(c Config) *Node {
	return &Node{Config: c, places: places{peers: map[string]peer{}}, outdated: make(chan struct{}), takeover: make(chan struct{}, 1)}
}

// RefuseWhileOthersRun returns a check for sqldb.DB.BeforeBreaking. The check rejects a breaking
// migration of a shared database while other jobrunners run.
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

// StartPools starts the pools of the endpoints that this node leads, and finishes interrupted deletions of
// endpoints. From then on, this node's changes of endpoints and pods are applied and announced to the other nodes.
func (n *Node) StartPools(ctx context.Context) error {
	background := context.WithoutCancel(ctx)
	store.OnChange[store.Endpoint](n.Store, func(id string) {
		n.Sync(background, id)
		n.Engine.Announce(engine.EndpointChanged, id)
	})
	store.OnChange[store.Pod](n.Store, func(id string) {
		n.Pods.Sync(background, id)
		n.Engine.Announce(engine.PodChanged, id)
	})
	if _, err := n.applyAll(ctx, false); err != nil {
		return err
	}
	queues, err := n.Engine.StoredQueues(ctx)
	if err != nil {
		return err
	}
	for _, queue := range queues {
		id := engine.EndpointOf(queue)
		// Read each endpoint again: another node may have created it since applyAll.
		_, err := n.Store.Endpoint(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			err = n.Engine.DropEndpoint(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("checking whether the endpoint %s was deleted, to drop its jobs: %w", id, err)
		}
		if engine.IsBatchQueue(queue) {
			n.Pools.CheckLoad(queue)
		}
	}
	return nil
}

// Sync applies an endpoint's stored settings. Calls run one at a time, so that the latest settings are applied last.
func (n *Node) Sync(ctx context.Context, id string) {
	n.OnChange(id)
	n.syncMu.Lock()
	defer n.syncMu.Unlock()
	n.sync(ctx, id)
}

// sync is Sync for a caller that holds syncMu. It unlocks syncMu while the workers of a deleted endpoint end, which may take a minute.
func (n *Node) sync(ctx context.Context, id string) {
	e, err := n.Store.Endpoint(ctx, id)
	switch {
	case err == nil:
		_, err = n.apply(ctx, e)
	case errors.Is(err, store.ErrNotFound):
		n.places.endpoints.Delete(id)
		n.syncMu.Unlock()
		n.Pools.Remove(id)
		err = n.Engine.DropEndpoint(ctx, id)
		n.syncMu.Lock()
	}
	switch {
	case err == nil:
	case sqldb.Temporary(err):
		n.resyncs.schedule(resyncPause, id, func() { n.Sync(ctx, id) })
	default:
		n.Logger.ErrorContext(ctx, "applying an endpoint's change failed: it takes effect at the next start", "endpoint", id, "error", err)
	}
}

// handleAnnouncement handles another node's announcement. It doesn't block.
func (n *Node) handleAnnouncement(ctx context.Context, kind, id string) {
	switch kind {
	case engine.EndpointChanged, engine.LeadershipChanged:
		n.resyncs.schedule(0, id, func() { n.Sync(ctx, id) })
	case engine.PodChanged:
		n.resyncs.schedule(0, "pod "+id, func() { n.Pods.Sync(ctx, id) })
	}
}

// PodReason returns a pod's reason, or, if its node is gone, that its state may be outdated.
func (n *Node) PodReason(p store.Pod) string {
	if _, alive := n.urlOf(p.FolderID); alive || !n.DB.Shared() || p.FolderID == n.FolderID {
		return p.Reason
	}
	return "the jobrunner that has the pod is not running: this is the pod's last known state, and changes are applied when that jobrunner is back with its data folder"
}

// urlOf returns the URL of another node by its data folder. alive is false if no such node runs.
func (n *Node) urlOf(folderID string) (url string, alive bool) {
	for _, other := range n.Engine.Nodes() {
		if other.FolderID == folderID {
			return other.URL, true
		}
	}
	return "", false
}

// Drain stops the node from claiming further endpoints.
func (n *Node) Drain() { n.draining.Store(true) }

// UnreadyReason returns why the node isn't ready, or "". It waits for the database until ctx ends.
func (n *Node) UnreadyReason(ctx context.Context) string {
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
	return "the database does not answer" // its error may name the server
}

// Outdated is closed once another node has made a breaking change of the shared database.
func (n *Node) Outdated() <-chan struct{} { return n.outdated }

// Close stops Follow and the pending work of Sync.
func (n *Node) Close() {
	if n.cancel != nil {
		n.cancel()
		n.followers.Wait()
	}
	n.resyncs.close()
}

// FolderIDFile is the file in the data folder that has the folder's id.
const FolderIDFile = "machine"

// LoadFolderID returns the id of a data folder, which it stores there. If folder is "", it returns a new id.
func LoadFolderID(folder string) (string, error) {
	newID := strings.ToLower(rand.Text()[:12])
	if folder == "" {
		return newID, nil
	}
	path := filepath.Join(folder, FolderIDFile)
	text, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(text)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the id of the data folder: %w", err)
	}
	if err := durable.WriteFile(path, []byte(newID+"\n")); err != nil {
		return "", fmt.Errorf("the id of the data folder: %w", err)
	}
	return newID, nil
}
