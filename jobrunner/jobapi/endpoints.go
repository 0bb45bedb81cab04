package jobapi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Endpoints remembers what the job API asks of an endpoint at each request: reading and
// decoding the whole of it would be a tenth of a small request's cost.
type Endpoints struct {
	load func(ctx context.Context, id string) (store.Endpoint, error)
	// uncached disables the cache: other nodes change endpoints too.
	uncached bool

	mu      sync.Mutex
	cache   map[string]Endpoint
	changes int
}

// NewEndpoints caches what load returns, unless uncached.
func NewEndpoints(load func(ctx context.Context, id string) (store.Endpoint, error), uncached bool) *Endpoints {
	return &Endpoints{load: load, uncached: uncached, cache: map[string]Endpoint{}}
}

// Find returns ErrNoEndpoint if no endpoint with a queue has the id.
func (e *Endpoints) Find(ctx context.Context, id string) (Endpoint, error) {
	e.mu.Lock()
	found, ok := e.cache[id]
	before := e.changes
	e.mu.Unlock()
	if ok {
		return found, nil
	}
	stored, err := e.load(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return found, fmt.Errorf("%w: %q", ErrNoEndpoint, id)
	case err != nil:
		return found, err
	case stored.Type == store.LoadBalancer:
		return found, fmt.Errorf("%w with a queue: %q is a load balancer", ErrNoEndpoint, id)
	}
	found.WorkersMax = int(stored.WorkersMax)
	e.mu.Lock()
	defer e.mu.Unlock()
	// What was read before a change may be what it changed.
	if e.changes == before && !e.uncached {
		e.cache[id] = found
	}
	return found, nil
}

// Changed is called when an endpoint changed.
func (e *Endpoints) Changed(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes++
	delete(e.cache, id)
}
