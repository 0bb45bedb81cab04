package jobapi

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// After a change, no request gets the old settings, even if its read began before the change.
func TestEndpointsAreInvalidated(t *testing.T) {
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
		must.Hold(t, err == nil && got.WorkersMax == workersMax && reads == read, got.WorkersMax, "workers after", reads, "reads", err, workersMax, "after", read)
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
	must.FailWith(t, must.Err(q.Find(t.Context(), "ep")), ErrNoEndpoint, "a load balancer")
	missing = store.ErrNotFound
	must.FailWith(t, must.Err(q.Find(t.Context(), "ep")), ErrNoEndpoint, "no endpoint")
}

// Requests share reads of an endpoint, and each sees the changes made before it.
func TestEndpointsShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newest, reads := 0, 0
		goOn := make(chan struct{})
		q := NewEndpoints(func(context.Context, string) (store.Endpoint, error) {
			was := newest
			reads++
			<-goOn
			return store.Endpoint{WorkersMax: int64(was)}, nil
		}, true)
		for range 3 {
			newest++
			atLeast := newest
			for range 10 {
				go func() {
					got, err := q.Find(t.Context(), "ep")
					must.Hold(t, got.WorkersMax >= atLeast && err == nil, got.WorkersMax, "workers,", err, "want", atLeast)
				}()
			}
			synctest.Wait()
		}
		close(goOn)
		synctest.Wait()
		must.Hold(t, reads == 2 && len(q.next)+len(q.last) == 0, "30 requests needed", reads, "reads, and left", q.next, q.last)
	})
}
