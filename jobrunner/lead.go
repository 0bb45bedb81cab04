package jobrunner

import (
	"context"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// On a database that several jobrunners share, one of them leads an endpoint and has
// all its workers (engine/lead.go). The others pass on what only that one can answer
// (forward.go).

// places are where the workers of endpoints are, as this process last read it.
type places struct {
	mu        sync.Mutex
	endpoints map[string]place
	pods      map[string]string // machine, by pod
	missing   map[string]bool   // endpoints that nobody led at the last look
}

// place is that of an endpoint's workers.
type place struct {
	engine.Leader      // zero: nobody leads the endpoint
	balanced      bool // the workers serve its paths themselves
}

func (p *places) endpoint(id string) (place, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.endpoints[id]
	return at, known
}

func (p *places) set(id string, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endpoints == nil {
		p.endpoints = map[string]place{}
	}
	p.endpoints[id] = at
}

func (p *places) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.endpoints, id)
}

// apply makes the settings of an endpoint count: here where this process leads it, or
// can. The caller holds syncing.
func (j *Jobrunner) apply(ctx context.Context, e store.Endpoint) error {
	if !j.db.Shared() {
		j.pools.Set(settings(e))
		return nil
	}
	if !j.draining.Load() {
		own, err := j.engine.Claim(ctx, e.ID)
		if err != nil {
			return err
		}
		if l, ok := own[e.ID]; ok {
			j.placeAt(e, engine.Leader{Lead: l, Own: true})
			return nil
		}
	}
	leaders, err := j.engine.Leaders(ctx)
	if err == nil {
		j.placeAt(e, leaders[e.ID])
	}
	return err
}

// placeAt has an endpoint's workers here, by the lead that this process has, or ends
// those that are.
func (j *Jobrunner) placeAt(e store.Endpoint, at engine.Leader) {
	before, here := j.pools.Leads(e.ID)
	if here && (!at.Own || before != at.Lead) {
		j.pools.Remove(e.ID)
	}
	if at.Own {
		s := settings(e)
		s.Lead = at.Lead
		j.pools.Set(s)
	}
	j.places.set(e.ID, place{at, e.Type == store.LoadBalancer})
}

// placeAll is apply for all endpoints, in few statements. The caller holds syncing.
func (j *Jobrunner) placeAll(ctx context.Context, endpoints []store.Endpoint, rebalance bool) error {
	leaders, err := j.engine.Leaders(ctx)
	if err != nil {
		return err
	}
	nodes := len(j.engine.Nodes()) + 1
	share := (len(endpoints) + nodes - 1) / nodes
	claim, missing, own := []string(nil), map[string]bool{}, 0
	for _, e := range endpoints {
		if leaders[e.ID].Own {
			own++
		}
	}
	for _, e := range endpoints {
		if leaders[e.ID].Process == "" {
			missing[e.ID] = true
			// Beyond its share a process waits for the others to claim.
			if own+len(claim) < share || j.places.missing[e.ID] {
				claim = append(claim, e.ID)
			}
		}
	}
	j.places.missing = missing
	if len(claim) > 0 && !j.draining.Load() {
		leads, err := j.engine.Claim(ctx, claim...)
		if err != nil {
			return err
		}
		for id, l := range leads {
			leaders[id] = engine.Leader{Lead: l, Own: true}
			delete(missing, id)
			own++
		}
	}
	var lost sync.WaitGroup // whose workers take a moment to end
	for _, e := range endpoints {
		at := leaders[e.ID]
		if before, here := j.pools.Leads(e.ID); here && (!at.Own || before != at.Lead) {
			lost.Go(func() { j.placeAt(e, at) })
			continue
		}
		j.placeAt(e, at)
	}
	lost.Wait()
	if err := j.tellFailures(ctx, leaders); err != nil {
		return err
	}
	if rebalance && own > share {
		return j.giveUp(ctx, endpoints, own-share)
	}
	return nil
}

// failure is why no worker of an endpoint can work, "" for none, as the process that
// leads it has told.
func (j *Jobrunner) failure(endpoint string) string {
	if at, known := j.places.endpoint(endpoint); known && !at.Own {
		return at.Failure
	}
	return j.pools.Failure(endpoint)
}

// tellFailures has the others know why no workers can work of the endpoints that this
// process leads.
func (j *Jobrunner) tellFailures(ctx context.Context, leaders map[string]engine.Leader) error {
	for endpoint, l := range leaders {
		failure := j.pools.Failure(endpoint)
		if !l.Own || failure == l.Failure {
			continue
		}
		if err := j.engine.SetFailure(ctx, endpoint, l.Lead, failure); err != nil {
			return err
		}
	}
	return nil
}

// giveUp releases the leads of so many endpoints that have neither workers nor jobs,
// for processes that have fewer.
func (j *Jobrunner) giveUp(ctx context.Context, endpoints []store.Endpoint, most int) error {
	active, err := j.engine.Active(ctx)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		l, here := j.pools.Leads(e.ID)
		if _, busy := active[e.ID]; !here || busy || e.WorkersMin > 0 || !j.pools.Vacant(e.ID) {
			continue
		}
		if most--; most < 0 {
			return nil
		}
		j.pools.Remove(e.ID)
		j.places.set(e.ID, place{balanced: e.Type == store.LoadBalancer})
		if err := j.engine.Release(ctx, e.ID, l); err != nil {
			return err
		}
	}
	return nil
}

// heed acts on what another process announced. It is quick.
func (j *Jobrunner) heed(ctx context.Context, kind, id string) {
	if !j.started.Load() {
		return // what it announced is read anyway
	}
	switch kind {
	case engine.Queued:
		j.pools.Queued(id)
	case engine.EndpointChanged, engine.LeadChanged:
		j.resyncs.soon(id, func() { j.sync(ctx, id) })
	case engine.PodChanged:
		j.resyncs.soon("pod "+id, func() { j.pods.SyncKnown(ctx, id) })
	case engine.LimitReached:
		j.limits.GiveBack(id)
	}
}
