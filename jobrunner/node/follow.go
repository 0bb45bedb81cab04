package node

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const (
	followEvery    = time.Second // interval of rounds
	minuteRounds   = 60          // rounds in a minute
	rebalanceEvery = 10          // rounds between two checks whether this node leads more endpoints than its share

	takeoverPause = 200 * time.Millisecond // between two claims while requests wait for a leader
)

// Follow applies the changes of other nodes to endpoints, pods and queues, until Close.
func (n *Node) Follow(ctx context.Context) {
	background := context.WithoutCancel(ctx)
	n.Engine.Listen(func(kind, id string) { n.handleAnnouncement(background, kind, id) })
	ctx, n.cancel = context.WithCancel(background)
	n.followers.Go(func() {
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		previousIDs, active := map[string]bool{}, map[string]engine.Counts{}
		lastFailed, lastClaim := false, time.Time{}
		for round := 0; ; {
			select {
			case <-n.takeover:
				if time.Since(lastClaim) > takeoverPause {
					_, _ = n.applyAll(ctx, false) // the next round logs an error
					lastClaim = time.Now()
				}
				continue
			case <-ticker.C:
				round++
			case <-ctx.Done():
				return
			}
			if round%minuteRounds == 1 {
				n.followers.Go(func() { n.checkOthers(ctx) })
			}
			endpoints, err := n.runRound(ctx, round, active)
			if err != nil && !lastFailed && ctx.Err() == nil && !sqldb.Temporary(err) {
				n.Logger.ErrorContext(ctx, "reading the changes of other processes failed", "error", err)
			}
			if lastFailed = err != nil; lastFailed {
				continue
			}
			ids := map[string]bool{}
			for _, e := range endpoints {
				ids[e.ID] = true
				delete(previousIDs, e.ID)
			}
			for id := range previousIDs { // deleted since the last round
				n.Sync(ctx, id)
			}
			previousIDs = ids
		}
	})
}

// runRound applies other nodes' changes once. It updates active, the endpoints that had jobs in the last round.
func (n *Node) runRound(ctx context.Context, number int, active map[string]engine.Counts) (endpoints []store.Endpoint, err error) {
	if err := n.checkVersions(ctx); err != nil {
		return nil, err
	}
	if err := n.syncPods(ctx); err != nil {
		return nil, err
	}
	if endpoints, err = n.applyAll(ctx, number%rebalanceEvery == 0); err != nil {
		return nil, err
	}
	if err := n.wakeActive(ctx, active); err != nil {
		return nil, err
	}
	if err := n.KeyTable.Reload(ctx); err != nil || number%minuteRounds != 0 {
		return endpoints, err
	}
	return endpoints, n.Timekeeper.correct(ctx)
}

// checkVersions closes Outdated if another node has made a breaking migration.
func (n *Node) checkVersions(ctx context.Context) error {
	err := n.DB.CheckVersions(ctx)
	if errors.Is(err, sqldb.ErrNewer) {
		select {
		case <-n.outdated:
		default:
			n.Logger.ErrorContext(ctx, "this jobrunner stops working: another one has changed the database, and this version can't work with it", "error", err)
			close(n.outdated)
		}
	}
	return err
}

// wakeActive makes the pools check their load if their endpoints have jobs, or had jobs in
// the last round. Idle endpoints cost no statement.
func (n *Node) wakeActive(ctx context.Context, active map[string]engine.Counts) error {
	current, err := n.Engine.Active(ctx)
	if err != nil {
		return err
	}
	for id := range active {
		n.Pools.CheckLoad(id)
	}
	for id := range current {
		if _, checked := active[id]; !checked {
			n.Pools.CheckLoad(id)
		}
	}
	clear(active)
	maps.Copy(active, current)
	return nil
}

// applyAll applies the stored settings of all endpoints. It is serialized with Sync.
func (n *Node) applyAll(ctx context.Context, rebalance bool) ([]store.Endpoint, error) {
	n.syncMu.Lock()
	defer n.syncMu.Unlock()
	endpoints, err := n.Store.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	p, err := n.apply(ctx, endpoints...)
	if err != nil {
		return nil, err
	}
	n.places.leaderless = p.leaderless
	if rebalance && p.surplus > 0 {
		err = n.releaseEndpoints(ctx, endpoints, p.surplus)
	}
	return endpoints, err
}

// syncPods applies the changes of pods by other nodes, and records the data folder of each pod's node.
func (n *Node) syncPods(ctx context.Context) error {
	all, err := n.Store.Pods(ctx)
	if err != nil {
		return err
	}
	folderIDs := make(map[string]string, len(all))
	for _, p := range all {
		folderIDs[p.ID] = p.FolderID
	}
	n.places.mu.Lock()
	n.places.pods = folderIDs
	n.places.mu.Unlock()
	n.Pods.SyncAll(ctx, all)
	return nil
}

// resyncPause is real time, because a database's outage doesn't follow the jobrunner's clock.
const resyncPause = time.Second

// resyncs schedules reads of changed objects: at once, or after a pause if the database is unavailable.
type resyncs struct {
	mu      sync.Mutex
	timers  map[string]*time.Timer // by object
	closed  bool
	pending sync.WaitGroup
}

// schedule calls resync in a new goroutine after a pause. Until then it ignores further calls for the same object.
func (r *resyncs) schedule(pause time.Duration, object string, resync func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.timers[object] != nil {
		return
	}
	if r.timers == nil {
		r.timers = map[string]*time.Timer{}
	}
	r.pending.Add(1)
	r.timers[object] = time.AfterFunc(pause, func() {
		defer r.pending.Done()
		r.mu.Lock()
		delete(r.timers, object)
		r.mu.Unlock()
		resync()
	})
}

// close cancels the pending resyncs, and waits for the running resyncs.
func (r *resyncs) close() {
	r.mu.Lock()
	r.closed = true
	for _, timer := range r.timers {
		if timer.Stop() {
			r.pending.Done()
		}
	}
	r.mu.Unlock()
	r.pending.Wait()
}
