package node

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// places caches which node leads each endpoint, and which node runs each pod.
type places struct {
	endpoints sync.Map // place by id

	mu    sync.Mutex
	pods  map[string]string // id of the data folder by pod
	peers map[string]peer   // by URL

	leaderless map[string]bool // endpoints without a leader in the last round; guarded by Node.syncMu
}

// place is an endpoint's leader when it was last read.
type place struct {
	engine.Leader      // zero: the endpoint has no leader
	balanced      bool // it is a load-balancing endpoint
}

func (p *places) endpoint(id string) (place, bool) {
	value, known := p.endpoints.Load(id)
	endpoint, _ := value.(place)
	return endpoint, known
}

// peer is another node. alive ends when the node is gone.
type peer struct {
	alive context.Context
	end   context.CancelFunc
}

// peerContext returns a context that ends when the node at a URL is gone.
func (p *places) peerContext(url string) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	other, known := p.peers[url]
	if !known {
		other.alive, other.end = context.WithCancel(context.Background())
		p.peers[url] = other
	}
	return other.alive
}

// keepPeers ends the contexts of the nodes at other URLs.
func (p *places) keepPeers(urls map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for url, other := range p.peers {
		if !urls[url] {
			other.end()
			delete(p.peers, url)
		}
	}
}

func workerSettings(e store.Endpoint) worker.Endpoint {
	return worker.Endpoint{
		ID: e.ID, Container: e.Container, Version: e.Version, GPU: e.GPU, CPU: e.CPU, Volumes: e.NetworkVolumes, Balanced: e.Type == store.LoadBalancer,
		Min: int(e.WorkersMin), Max: int(e.WorkersMax),
		IdleTimeout: time.Duration(e.IdleTimeout) * time.Second,
		Timeout:     time.Duration(e.Timeout) * time.Millisecond,
		ByRequests:  e.Scaling.Type == store.RequestCount,
		ScalerValue: e.Scaling.Value,
		DataCenters: e.DataCenterIDs, Template: e.TemplateID,
	}
}

// placeAt records an endpoint's leader. If that is this node, it starts workers; if not, it stops them.
func (n *Node) placeAt(e store.Endpoint, leader engine.Leader) {
	if n.lostLeadership(e.ID, leader) {
		n.Pools.Remove(e.ID)
	}
	if leader.Own {
		s := workerSettings(e)
		s.Leadership = leader.Leadership
		n.Pools.Set(s)
	}
	n.places.endpoints.Store(e.ID, place{leader, e.Type == store.LoadBalancer})
}

// lostLeadership reports whether this node runs an endpoint's workers under a leadership that it has lost.
func (n *Node) lostLeadership(endpoint string, leader engine.Leader) bool {
	current, runsHere := n.Pools.Leadership(endpoint)
	return runsHere && (!leader.Own || current != leader.Leadership)
}

// plan is how a node changes which endpoints it leads.
type plan struct {
	claim      []string        // endpoints to claim
	leaderless map[string]bool // endpoints without a leader
	surplus    int             // number of led endpoints above this node's share
}

// newPlan plans which endpoints a node leads. Beyond its share the node claims only endpoints that
// had no leader in the last round either, so that other nodes can claim them first.
func newPlan(endpoints []store.Endpoint, leaders map[string]engine.Leader, nodes int, leaderlessBefore map[string]bool) plan {
	share, ledHere := (len(endpoints)+nodes-1)/nodes, 0
	for _, e := range endpoints {
		if leaders[e.ID].Own {
			ledHere++
		}
	}
	p := plan{leaderless: map[string]bool{}, surplus: ledHere - share}
	for _, e := range endpoints {
		if leaders[e.ID].Process != "" {
			continue
		}
		p.leaderless[e.ID] = true
		if ledHere+len(p.claim) < share || leaderlessBefore[e.ID] {
			p.claim = append(p.claim, e.ID)
		}
	}
	return p
}

// apply applies the settings of endpoints that this node leads or can claim. The caller holds syncMu.
func (n *Node) apply(ctx context.Context, endpoints ...store.Endpoint) (p plan, err error) {
	if !n.DB.Shared() {
		for _, e := range endpoints {
			n.Pools.Set(workerSettings(e))
		}
		return p, nil
	}
	leaders, err := n.Engine.Leaders(ctx)
	if err != nil {
		return p, err
	}
	others, urls := n.Engine.Nodes(), map[string]bool{}
	for _, other := range others {
		urls[other.URL] = true
	}
	for _, l := range leaders {
		urls[l.URL] = true
	}
	n.places.keepPeers(urls)
	p = newPlan(endpoints, leaders, len(others)+1, n.places.leaderless)
	if len(p.claim) > 0 && !n.draining.Load() {
		claimed, err := n.Engine.Claim(ctx, p.claim...)
		if err != nil {
			return p, err
		}
		for id, l := range claimed {
			leaders[id] = engine.Leader{Leadership: l, Own: true}
		}
		p = newPlan(endpoints, leaders, len(others)+1, nil)
	}
	var removals sync.WaitGroup // concurrent, because stopping workers takes a moment
	for _, e := range endpoints {
		leader := leaders[e.ID]
		if n.lostLeadership(e.ID, leader) {
			removals.Go(func() { n.placeAt(e, leader) })
			continue
		}
		n.placeAt(e, leader)
	}
	removals.Wait()
	return p, nil
}

// releaseEndpoints releases the leadership of up to limit endpoints without workers and jobs,
// so that nodes that lead fewer can claim them.
func (n *Node) releaseEndpoints(ctx context.Context, endpoints []store.Endpoint, limit int) error {
	for _, e := range endpoints {
		l, runsHere := n.Pools.Leadership(e.ID)
		if !runsHere || e.WorkersMin > 0 || !n.Pools.HasNoWorker(e.ID) {
			continue
		}
		// The counts must be current: after a release, the clients that wait here learn late of a job's end.
		jobs, requests := n.Engine.Counts(e.ID), n.Engine.Counts(engine.BatchQueue(e.ID))
		if jobs.InQueue+jobs.InProgress+requests.InQueue+requests.InProgress > 0 {
			continue
		}
		if limit--; limit < 0 {
			return nil
		}
		n.Pools.Remove(e.ID)
		n.places.endpoints.Store(e.ID, place{balanced: e.Type == store.LoadBalancer})
		if err := n.Engine.Release(ctx, e.ID, l); err != nil {
			return err
		}
	}
	return nil
}
