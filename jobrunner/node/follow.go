package node

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const (
	followEvery    = time.Second // how soon what another node did counts here
	agreeEvery     = 60          // rounds between those with minute set
	rebalanceEvery = 10          // rounds between those that give endpoints to nodes that have fewer
)

// Follow applies what other nodes change until Close: endpoints, pods, and jobs that wait
// although the node that accepted them is gone.
func (n *Node) Follow(ctx context.Context) {
	ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.following.Go(func() {
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		known, active := map[string]bool{}, map[string]engine.Counts{}
		failing := false
		for round := 1; ; round++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			endpoints, err := n.round(ctx, round, active)
			if err != nil && !failing && ctx.Err() == nil && !engine.Temporary(err) {
				n.Logger.ErrorContext(ctx, "reading the changes of other processes failed", "error", err)
			}
			if failing = err != nil; failing {
				continue
			}
			now := map[string]bool{}
			for _, e := range endpoints {
				now[e.ID] = true
				delete(known, e.ID)
			}
			for id := range known { // it was there a second ago
				n.Sync(ctx, id)
			}
			known = now
		}
	})
}

// round reads the changes of other nodes once. active are the endpoints with jobs of the
// last round, which it replaces.
func (n *Node) round(ctx context.Context, number int, active map[string]engine.Counts) (endpoints []store.Endpoint, err error) {
	if err := n.checkVersions(ctx); err != nil {
		return nil, err
	}
	if err := n.syncPods(ctx); err != nil {
		return nil, err
	}
	if endpoints, err = n.setAll(ctx, number%rebalanceEvery == 0); err != nil {
		return nil, err
	}
	if err := n.wakeActive(ctx, active); err != nil {
		return nil, err
	}
	return endpoints, n.Round(ctx, number%agreeEvery == 0)
}

// checkVersions closes Outdated if another node changed the database in a way that this
// version can't work with.
func (n *Node) checkVersions(ctx context.Context) error {
	err := n.DB.CheckVersions(ctx)
	if errors.Is(err, sqldb.ErrNewer) {
		select {
		case <-n.outdated:
		default:
			n.Logger.ErrorContext(ctx, "this jobrunner does nothing any more: another one has changed the database, and this version can't work with it", "error", err)
			close(n.outdated)
		}
	}
	return err
}

// wakeActive tells the pools to look at their load if their endpoints have jobs now or had
// some in the last round. Idle endpoints cost no statement.
func (n *Node) wakeActive(ctx context.Context, active map[string]engine.Counts) error {
	now, err := n.Engine.Active(ctx)
	if err != nil {
		return err
	}
	for id := range active {
		n.Pools.Queued(id)
	}
	for id := range now {
		if _, again := active[id]; !again {
			n.Pools.Queued(id)
		}
	}
	clear(active)
	maps.Copy(active, now)
	return nil
}

// setAll applies the settings of all endpoints. As in Sync, what is read last is set last.
func (n *Node) setAll(ctx context.Context, rebalance bool) ([]store.Endpoint, error) {
	n.syncing.Lock()
	defer n.syncing.Unlock()
	endpoints, err := n.Store.Endpoints(ctx)
	if err == nil && n.DB.Shared() {
		return endpoints, n.placeAll(ctx, endpoints, rebalance)
	}
	for _, e := range endpoints {
		n.Pools.Set(settings(e))
	}
	return endpoints, err
}

// syncPods applies what other nodes changed of pods, and notes where they run.
func (n *Node) syncPods(ctx context.Context) error {
	all, err := n.Store.Pods(ctx)
	if err != nil {
		return err
	}
	at := make(map[string]string, len(all))
	for _, p := range all {
		at[p.ID] = p.Machine
	}
	n.places.mu.Lock()
	n.places.pods = at
	n.places.mu.Unlock()
	n.Pods.SyncAll(ctx, all)
	return nil
}
