package jobapi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Endpoints caches the settings of endpoints that the job API needs for each request. Reading and
// decoding the whole endpoint would be a tenth of a small request's cost.
type Endpoints struct {
	load func(ctx context.Context, id string) (store.Endpoint, error)
	// uncached disables the cache: other nodes change endpoints too.
	uncached bool

	mu      sync.Mutex
	cache   map[string]Endpoint
	changes int
	next    map[string]*reading      // by id: reads that wait for the one in flight
	last    map[string]chan struct{} // by id: closed at the end of the latest read
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
	stored, err := e.read(ctx, id)
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
	// Don't cache a read that a change may have overtaken.
	if e.changes == before && !e.uncached {
		e.cache[id] = found
	}
	return found, nil
}

// Changed must be called when an endpoint changed.
func (e *Endpoints) Changed(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes++
	delete(e.cache, id)
}

// reading is a read of an endpoint that concurrent requests share. It begins after all of them, so
// that each sees the changes made before it.
type reading struct {
	done     chan struct{}
	endpoint store.Endpoint
	err      error
}

// read shares reads of one endpoint between concurrent requests.
func (e *Endpoints) read(ctx context.Context, id string) (store.Endpoint, error) {
	e.mu.Lock()
	r := e.next[id]
	if r == nil {
		if e.next == nil {
			e.next, e.last = map[string]*reading{}, map[string]chan struct{}{}
		}
		r = &reading{done: make(chan struct{})}
		before := e.last[id]
		e.next[id], e.last[id] = r, r.done
		go e.lead(context.WithoutCancel(ctx), id, r, before)
	}
	e.mu.Unlock()
	select {
	case <-r.done:
		return r.endpoint, r.err
	case <-ctx.Done():
		return store.Endpoint{}, ctx.Err()
	}
}

// lead reads an endpoint once the previous read has ended.
func (e *Endpoints) lead(ctx context.Context, id string, r *reading, before <-chan struct{}) {
	if before != nil {
		<-before
	}
	e.mu.Lock()
	delete(e.next, id)
	e.mu.Unlock()
	r.endpoint, r.err = e.load(ctx, id)
	e.mu.Lock()
	if e.last[id] == r.done {
		delete(e.last, id)
	}
	e.mu.Unlock()
	close(r.done)
}
