package jobrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// queues remembers what the job API asks of an endpoint with each request:
// reading and decoding the whole of it would be a tenth of a small one's cost.
type queues struct {
	load func(ctx context.Context, id string) (store.Endpoint, error)
	// uncached disables the cache: where other processes change endpoints too.
	uncached bool

	mu      sync.Mutex
	cache   map[string]jobapi.Endpoint
	changes int
}

// find answers jobapi.ErrNoEndpoint for an id that is not that of an endpoint
// with a queue.
func (q *queues) find(ctx context.Context, id string) (jobapi.Endpoint, error) {
	q.mu.Lock()
	found, ok := q.cache[id]
	before := q.changes
	q.mu.Unlock()
	if ok {
		return found, nil
	}
	e, err := q.load(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return found, fmt.Errorf("%w: %q", jobapi.ErrNoEndpoint, id)
	case err != nil:
		return found, err
	case e.Type == store.LoadBalancer:
		return found, fmt.Errorf("%w with a queue: %q is a load balancer", jobapi.ErrNoEndpoint, id)
	}
	found.WorkersMax = int(e.WorkersMax)
	q.mu.Lock()
	defer q.mu.Unlock()
	// What was read before a change may be what it changed.
	if q.changes == before && !q.uncached {
		q.cache[id] = found
	}
	return found, nil
}

// changed is called when an endpoint is not what it was.
func (q *queues) changed(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes++
	delete(q.cache, id)
}
