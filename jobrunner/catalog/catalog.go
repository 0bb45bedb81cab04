// Package catalog lists the hardware and locations of the contract: GPU types,
// the pools that hold them, CPU flavours and data centers. All are open lists: an
// id that is missing from them is not refused.
//
// A deployment on the user's own machine has no prices. They are answered as 0.
package catalog

import (
	"maps"
	"slices"
	"strings"
)

// CUDAVersions are the known CUDA versions, newest first.
var CUDAVersions = []string{
	"13.0", "12.9", "12.8", "12.7", "12.6", "12.5", "12.4", "12.3", "12.2", "12.1", "12.0", "11.8",
}

// Stock is what the machine has of one GPU type.
type Stock struct {
	Count        int64    // free GPUs
	CUDAVersions []string // reported by its driver
	Memory       int64    // GB of one GPU
}

// GPUsWith returns the known GPU types, followed by the unknown ones of a
// machine's stock, by id.
func GPUsWith(stock map[string]Stock) []GPU {
	gpus := slices.Clone(GPUs)
	for _, id := range slices.Sorted(maps.Keys(stock)) {
		if _, ok := GPUByID(id); !ok {
			gpus = append(gpus, GPU{ID: id, Name: shortName(id), Manufacturer: "NVIDIA", Memory: stock[id].Memory})
		}
	}
	return gpus
}

func shortName(id string) string { return strings.TrimPrefix(id, "NVIDIA ") }

// PoolByID finds a pool.
func PoolByID(id string) (Pool, bool) { return find(Pools, id, func(p Pool) string { return p.ID }) }

// GPUByID finds a GPU type.
func GPUByID(id string) (GPU, bool) { return find(GPUs, id, func(g GPU) string { return g.ID }) }

// CPUByID finds a CPU flavour.
func CPUByID(id string) (CPU, bool) { return find(CPUs, id, func(c CPU) string { return c.ID }) }

// DataCenterByID finds a data center.
func DataCenterByID(id string) (DataCenter, bool) {
	return find(DataCenters, id, func(d DataCenter) string { return d.ID })
}

func find[T any](in []T, id string, key func(T) string) (found T, ok bool) {
	i := slices.IndexFunc(in, func(t T) bool { return key(t) == id })
	if i < 0 {
		return found, false
	}
	return in[i], true
}

// PoolOf is the id of the pool that holds a GPU type, "" for a type in no pool.
func PoolOf(typeID string) string {
	for _, p := range Pools {
		if slices.Contains(p.Types, typeID) {
			return p.ID
		}
	}
	return ""
}

// TypesIn returns the GPU types of the pools without the excluded ones, pool by
// pool. An unknown pool is ignored.
func TypesIn(pools, excluded []string) []string {
	types := []string{}
	for _, id := range pools {
		pool, _ := PoolByID(id)
		for _, t := range pool.Types {
			if !slices.Contains(excluded, t) && !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	return types
}

// Select translates GPU types into the fewest pools that hold them, in the
// order of the types, and the other types of those pools as exclusions. Types in
// no pool are left out.
func Select(typeIDs []string) (pools, excluded []string) {
	pools, excluded = []string{}, []string{}
	for _, t := range typeIDs {
		if p := PoolOf(t); p != "" && !slices.Contains(pools, p) {
			pools = append(pools, p)
		}
	}
	for _, t := range TypesIn(pools, nil) {
		if !slices.Contains(typeIDs, t) {
			excluded = append(excluded, t)
		}
	}
	return pools, excluded
}
