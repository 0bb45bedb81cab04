package jobapi

import (
	"context"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// After a change, no request gets the old settings, even if its read began before the change.
func TestEndpointsAreInvalidated(t *testing.T) {
	e, reads := store.Endpoint{WorkersMax: 1}, 0
	onRead := func() {}
	epoch, own := int64(1), true
	var loadErr error
	q := NewEndpoints(func(context.Context, string) (store.Endpoint, error) {
		reads++
		stored := e
		onRead()
		return stored, loadErr
	}, func(string) (int64, bool) { return epoch, own })
	expect := func(workersMax, read int) {
		t.Helper()
		got, err := q.Find(t.Context(), "ep")
		must.Hold(t, err == nil && got.WorkersMax == workersMax && reads == read, got.WorkersMax, "workers after", reads, "reads", err, workersMax, "after", read)
	}
	expect(1, 1)
	expect(1, 1)
	e.WorkersMax = 2
	q.Invalidate("ep")
	onRead = func() { // a change during the read
		e.WorkersMax = 3
		q.Invalidate("ep")
	}
	expect(2, 2)
	onRead = func() {}
	expect(3, 3)
	expect(3, 3)
	own = false // another node leads the endpoint, and changes it
	expect(3, 4)
	e.WorkersMax = 4
	expect(4, 5)
	epoch, own = 2, true
	expect(4, 6)
	expect(4, 6)
	q.Invalidate("ep")
	e.Type = store.LoadBalancer
	must.ErrorIs(t, must.Err(q.Find(t.Context(), "ep")), ErrNoEndpoint, "a load balancer")
	loadErr = store.ErrNotFound
	must.ErrorIs(t, must.Err(q.Find(t.Context(), "ep")), ErrNoEndpoint, "no endpoint")
}
