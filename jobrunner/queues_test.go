package jobrunner

import (
	"context"
	"errors"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// A change counts from its end on, also for who began to read before it.
func TestQueuesForget(t *testing.T) {
	e, reads := store.Endpoint{WorkersMax: 1}, 0
	during := func() {}
	var missing error
	q := &queues{cache: map[string]jobapi.Endpoint{}, load: func(context.Context, string) (store.Endpoint, error) {
		reads++
		was := e
		during()
		return was, missing
	}}
	expect := func(workersMax, read int) {
		t.Helper()
		got, err := q.find(t.Context(), "ep")
		if err != nil || got.WorkersMax != workersMax || reads != read {
			t.Errorf("%d workers after %d reads, %v; want %d after %d", got.WorkersMax, reads, err, workersMax, read)
		}
	}
	expect(1, 1)
	expect(1, 1)
	e.WorkersMax = 2
	q.changed("ep")
	during = func() { // as another request reads
		e.WorkersMax = 3
		q.changed("ep")
	}
	expect(2, 2)
	during = func() {}
	expect(3, 3)
	expect(3, 3)
	q.uncached = true
	q.changed("ep")
	expect(3, 4)
	expect(3, 5)
	q.uncached = false
	e.Type = store.LoadBalancer
	if _, err := q.find(t.Context(), "ep"); !errors.Is(err, jobapi.ErrNoEndpoint) {
		t.Errorf("a load balancer: %v", err)
	}
	missing = store.ErrNotFound
	if _, err := q.find(t.Context(), "ep"); !errors.Is(err, jobapi.ErrNoEndpoint) {
		t.Errorf("no endpoint: %v", err)
	}
}
