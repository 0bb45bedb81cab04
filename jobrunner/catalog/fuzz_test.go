package catalog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// An error names the file. An accepted file keeps the invariants of a catalog: unique ids, and no type
// in two pools, and no empty pool.
func FuzzFile(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text string) {
		s, err := parse("c.yaml", []byte(text))
		if err != nil {
			must.Hold(t, strings.HasPrefix(err.Error(), "c.yaml:"), text, "the error does not begin with the file", err)
			return
		}
		c := s.at(time.Hour)
		for what, ids := range map[string][]string{
			"GPU type": idsOf(c.GPUs, gpuID), "pool": idsOf(c.Pools, poolID), "CPU": idsOf(c.CPUs, cpuID), "data center": idsOf(c.DataCenters, dataCenterID),
		} {
			if slices.Sort(ids); len(slices.Compact(slices.Clone(ids))) != len(ids) {
				t.Errorf("%q: a %s appears twice: %q", text, what, ids)
			}
		}
		seen := map[string]bool{}
		for _, p := range c.Pools {
			must.Hold(t, len(p.Types) != 0, text, "the pool", p.ID, "is empty")
			for _, id := range p.Types {
				if _, known := c.GPUByID(id); !known || seen[id] {
					t.Errorf("%q: the pool %s holds %q", text, p.ID, id)
				}
				seen[id] = true
			}
		}
	},
		fuzz.Seed{"gpus: [{id: X 1, memory: 3, price: {secure: 0.44}, max_count: {secure: 1}}]\npools: [{id: P, types: [X 1, NVIDIA L4]}]\n"},
		fuzz.Seed{"remove: {gpus: ['*'], data_centers: [EU-RO-1], pools: [ADA_24], cpus: [cpu3c]}\n"},
		fuzz.Seed{"stock: [{gpus: ['*'], level: LOW, after: 1h}]\nstorage: {disk: 1}\nfees: {serverless: 0.1}\n"},
		fuzz.Seed{"data_centers: [{id: A, region: ASIA, country: JP, volume_types: [STANDARD], compliance: []}]\ncpus: [{id: c, vcpu: {min: 1, max: 2}, ram_gb_per_vcpu: 1.5}]\n"},
		fuzz.Seed{"a: &a [x, x]\nb: &b [*a, *a]\ngpus: [*b]\n"},
	)
}
