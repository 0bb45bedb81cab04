//go:build unix

package scale_test

import (
	"maps"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The number of calls of a plan doesn't depend on the number of objects.
func TestCallsOfAPlan(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		tf := workspace(t, d, ours, v)
		var before map[string]int
		tf.configure(count(1))
		tf.apply()
		sizes := []int{10, 100}
		if testing.Short() {
			sizes = []int{3, 10}
		}
		for _, n := range sizes {
			tf.configure(count(n))
			tf.grow(d, n)
			calls := d.countRequests(tf.expectEmptyPlan)
			for call, times := range calls {
				must.Hold(t, times <= 1, n, "of each kind", call, times, "times")
			}
			must.Equal(t, sum(calls), planCalls[v], n, "of each kind", "calls", calls)
			must.Hold(t, before == nil || maps.Equal(calls, before), n, "of each kind: calls", calls, "fewer objects needed", before)
			before = calls
		}
	})
}

// planCalls is the number of calls of a plan: a list per kind, and on v2 the catalog, which has
// the GPU pools of endpoints.
var planCalls = map[api.Version]int{api.V1: 4, api.V2: 5}
