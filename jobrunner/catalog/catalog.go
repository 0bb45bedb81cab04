// Package catalog says what a deployment offers: GPU types, the pools that hold
// them, CPU flavours, data centers, prices and stock. What is built in are the
// hardware and locations of the contract, for nothing: a machine of the user's own
// has no prices. A file may add to it, change it and take from it (file.go), and
// is read again when it changes (source.go).
//
// All ids are open lists: one that is missing here is not refused.
package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// Catalog is what is offered at a moment. Nobody changes one.
type Catalog struct {
	GPUs        []GPU
	Pools       []Pool
	CPUs        []CPU
	DataCenters []DataCenter
	Storage     StoragePrices
	Fees        Fees

	builds    map[string][]Build  // by the name of the endpoint
	offers    map[string]Offer    // of GPU types, where the file says something of them
	cpuPrices map[string]CPUPrice // of CPU flavours
	removed   map[string]bool     // GPU types that the file takes away, also where the machine has them
	closed    map[string]bool     // data centers that the file takes away: nothing is placed there
	stock     []stockRule         // those that count now, the latest last
}

var builtin = &Catalog{GPUs: contract.GPUTypes, Pools: contract.Pools, CPUs: contract.CPUFlavors, DataCenters: builtinDataCenters()}

// Builtin is the catalog of a deployment without a file.
func Builtin() *Catalog { return builtin }

// Stock is what the machine has of one GPU type.
type Stock struct {
	Count        int64    // free GPUs
	CUDAVersions []string // reported by its driver
	Memory       int64    // GB of one GPU
}

// GPUsWith returns the catalog's GPU types, followed by those that only the
// machine's stock has, by id.
func (c *Catalog) GPUsWith(stock map[string]Stock) []GPU {
	gpus := slices.Clone(c.GPUs)
	for _, id := range slices.Sorted(maps.Keys(stock)) {
		if _, ok := c.GPUByID(id); !ok && !c.removed[id] {
			gpus = append(gpus, GPU{ID: id, Name: displayName(id), Manufacturer: nvidia, Memory: stock[id].Memory})
		}
	}
	return gpus
}

func displayName(id string) string { return strings.TrimPrefix(id, "NVIDIA ") }

// PoolByID finds a pool.
func (c *Catalog) PoolByID(id string) (Pool, bool) {
	return find(c.Pools, id, func(p Pool) string { return p.ID })
}

// GPUByID finds a GPU type.
func (c *Catalog) GPUByID(id string) (GPU, bool) {
	return find(c.GPUs, id, func(g GPU) string { return g.ID })
}

// CPUByID finds a CPU flavour.
func (c *Catalog) CPUByID(id string) (CPU, bool) {
	return find(c.CPUs, id, func(f CPU) string { return f.ID })
}

// DataCenterByID finds a data center.
func (c *Catalog) DataCenterByID(id string) (DataCenter, bool) {
	return find(c.DataCenters, id, func(d DataCenter) string { return d.ID })
}

func find[T any](entries []T, id string, key func(T) string) (found T, ok bool) {
	i := slices.IndexFunc(entries, func(t T) bool { return key(t) == id })
	if i < 0 {
		return found, false
	}
	return entries[i], true
}

// PoolOf is the id of the pool that holds a GPU type, "" for a type in no pool.
func (c *Catalog) PoolOf(typeID string) string {
	for _, p := range c.Pools {
		if slices.Contains(p.Types, typeID) {
			return p.ID
		}
	}
	return ""
}

// TypesIn returns the GPU types of the pools without the excluded ones, pool by
// pool. An unknown pool is ignored.
func (c *Catalog) TypesIn(pools, excluded []string) []string {
	types := []string{}
	for _, id := range pools {
		pool, _ := c.PoolByID(id)
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
func (c *Catalog) Select(typeIDs []string) (pools, excluded []string) {
	pools, excluded = []string{}, []string{}
	for _, t := range typeIDs {
		if p := c.PoolOf(t); p != "" && !slices.Contains(pools, p) {
			pools = append(pools, p)
		}
	}
	for _, t := range c.TypesIn(pools, nil) {
		if !slices.Contains(typeIDs, t) {
			excluded = append(excluded, t)
		}
	}
	return pools, excluded
}
