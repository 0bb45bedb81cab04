package catalog_test

import (
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

func TestTypesAreInAtMostOnePool(t *testing.T) {
	poolOfType := map[string]string{}
	for _, p := range contract.Pools {
		for _, id := range p.Types {
			_, ok := catalog.Builtin().GPUByID(id)
			must.Hold(t, ok, p.ID, "has the unknown type", id)
			must.Equal(t, poolOfType[id], "", "another pool of", id, "than", p.ID)
			poolOfType[id] = p.ID
			must.Equal(t, catalog.Builtin().PoolOf(id), p.ID, "the catalog's pool of", id)
		}
	}
	must.Equal(t, catalog.Builtin().PoolOf("NVIDIA H100 PCIe"), "", "the pool of a type that is in none")
}

func TestSelection(t *testing.T) {
	for _, c := range []struct{ types, pools, excluded, selected []string }{
		{nil, nil, nil, nil},
		{[]string{"NVIDIA L4"}, []string{"ADA_24"}, []string{"NVIDIA GeForce RTX 4090"}, []string{"NVIDIA L4"}},
		{
			[]string{"NVIDIA H200", "NVIDIA L40", "NVIDIA L40S"}, []string{"HOPPER_141", "ADA_48_PRO"},
			[]string{"NVIDIA RTX 6000 Ada Generation"}, []string{"NVIDIA H200", "NVIDIA L40S", "NVIDIA L40"},
		},
		{[]string{"NVIDIA H100 PCIe", "no such GPU"}, nil, nil, nil}, // the first is in no pool, the second is unknown
		{[]string{"NVIDIA H100 PCIe", "NVIDIA H200"}, []string{"HOPPER_141"}, nil, []string{"NVIDIA H200"}},
	} {
		pools, excluded := catalog.Builtin().SelectPools(c.types)
		must.Hold(t, slices.Equal(pools, c.pools) && slices.Equal(excluded, c.excluded), "for", c.types, "SelectPools returns the pools", pools, "and exclusions", excluded)
		must.Equal(t, catalog.Builtin().TypesIn(pools, excluded), c.selected, "the types of the pools and exclusions that were selected for", c.types)
	}
	got := catalog.Builtin().TypesIn([]string{"NO_POOL", "ADA_24", "ADA_24"}, nil)
	must.Hold(t, len(got) == 2, "unknown and repeated pools have types", got)
}

func TestCPUMemory(t *testing.T) {
	for _, c := range []struct {
		flavor string
		vcpus  int64
		want   int64
	}{{"cpu3c", 2, 4}, {"cpu5g", 8, 32}, {"not known", 4, 8}, {"cpu3g", 1 << 62, 1 << 53}} {
		must.Equal(t, catalog.Builtin().CPUMemory(c.flavor, c.vcpus), c.want, "GB of memory with", c.vcpus, "vCPUs of", c.flavor)
	}
}
