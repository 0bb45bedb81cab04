package jobapi

import (
	"context"
	"errors"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// A change counts from its end on, also for who began to read before it.
func TestEndpointsForget(t *testing.T) {
	e, reads := store.Endpoint{WorkersMax: 1}, 0
	during := func() {}
	var missing error
	q := NewEndpoints(func(context.Context, string) (store.Endpoint, error) {
		reads++
		was := e
		during()
		return was, missing
	}, false)
	expect := func(workersMax, read int) {
		t.Helper()
		got, err := q.Find(t.Context(), "ep")
		if err != nil || got.WorkersMax != workersMax || reads != read {
			t.Errorf("%d workers after %d reads, %v; want %d after %d", got.WorkersMax, reads, err, workersMax, read)
		}
	}
	expect(1, 1)
	expect(1, 1)
	e.WorkersMax = 2
	q.Changed("ep")
	during = func() { // as another request reads
		e.WorkersMax = 3
		q.Changed("ep")
	}
	expect(2, 2)
	during = func() {}
	expect(3, 3)
	expect(3, 3)
	q.uncached = true
	q.Changed("ep")
	expect(3, 4)
	expect(3, 5)
	q.uncached = false
	e.Type = store.LoadBalancer
	if _, err := q.Find(t.Context(), "ep"); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("a load balancer: %v", err)
	}
	missing = store.ErrNotFound
	if _, err := q.Find(t.Context(), "ep"); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("no endpoint: %v", err)
	}
}
