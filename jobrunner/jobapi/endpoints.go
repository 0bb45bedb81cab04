package jobapi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Endpoints caches the settings of endpoints that the job API needs for each request. Reading and decoding
// the whole endpoint would be a tenth of a small request's cost, or a quarter on PostgreSQL.
type Endpoints struct {
	load func(ctx context.Context, id string) (store.Endpoint, error)
	// epoch returns the epoch of this process's leadership of an endpoint. Only the leader
	// changes an endpoint, so its cache is valid while it leads.
	epoch func(id string) (epoch int64, leads bool)

	mu      sync.Mutex
	cache   map[string]cachedEndpoint
	changes int
}

type cachedEndpoint struct {
	Endpoint
	epoch int64
}

// NewEndpoints caches what load returns, for as long as this process leads the endpoint.
func NewEndpoints(load func(ctx context.Context, id string) (store.Endpoint, error), epoch func(id string) (epoch int64, leads bool)) *Endpoints {
	return &Endpoints{load: load, epoch: epoch, cache: map[string]cachedEndpoint{}}
}

// Find returns ErrNoEndpoint if no endpoint with a queue has the id.
func (e *Endpoints) Find(ctx context.Context, id string) (Endpoint, error) {
	epoch, leads := e.epoch(id)
	e.mu.Lock()
	cached, ok := e.cache[id]
	changesBefore := e.changes
	e.mu.Unlock()
	if ok && leads && cached.epoch == epoch {
		return cached.Endpoint, nil
	}
	record, err := e.load(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Endpoint{}, fmt.Errorf("%w: %q", ErrNoEndpoint, id)
	case err != nil:
		return Endpoint{}, err
	case record.Type == store.LoadBalancer:
		return Endpoint{}, fmt.Errorf("%w with a queue: %q is a load balancer", ErrNoEndpoint, id)
	}
	cached = cachedEndpoint{Endpoint{WorkersMax: int(record.WorkersMax)}, epoch}
	e.mu.Lock()
	defer e.mu.Unlock()
	// Don't cache a read that a change may have overtaken.
	if leads && e.changes == changesBefore {
		e.cache[id] = cached
	}
	return cached.Endpoint, nil
}

// Invalidate must be called when an endpoint has changed.
func (e *Endpoints) Invalidate(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes++
	delete(e.cache, id)
}
