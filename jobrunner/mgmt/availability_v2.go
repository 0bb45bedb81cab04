package mgmt

import (
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// levelIn returns the stock of a product in a data center: as the catalog's file states it, otherwise
// whether the machine has any. For several products it is the lowest of their levels.
func levelIn(offered *catalog.Catalog, p catalog.Placing, products []string, onMachine bool) (level catalog.Level, stated bool) {
	level = catalog.High
	for _, p.Product = range products {
		stock, known := offered.LevelOf(p)
		if !known && onMachine {
			stock = catalog.High
		}
		stated = stated || known
		if stock.Less(level) {
			level = stock
		}
	}
	return level, stated
}

// addAvailability shows where a GPU type is in stock. The machine stands for all data centers: each
// has the types that the machine has.
func (q gpuQuery) addAvailability(w *gpuTypeV2, offered *catalog.Catalog, offer catalog.Offer, stock catalog.Stock) {
	filtersCUDA := len(q.cudaVersions) > 0 || q.minCUDA != ""
	versions := stock.CUDAVersions
	if len(versions) == 0 {
		versions = offer.CUDAVersions
	}
	versions = slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return !q.accepts(v) })
	fits := q.count <= offer.MaxCount[q.cloud]
	highest, free := catalog.None, false
	for _, d := range offered.DataCenters {
		level, stated := levelIn(offered, catalog.Placing{GPU: w.ID, DataCenter: d.ID, Cloud: q.cloud}, q.products, stock.Count >= q.count)
		if stated && !fits {
			level = catalog.None
		}
		free = free || level != catalog.None
		if level == catalog.None || filtersCUDA && len(versions) == 0 || len(q.countries) > 0 && !slices.Contains(q.countries, d.Country) {
			continue
		}
		w.DataCenters = append(w.DataCenters, availabilityV2{d.ID, d.Name, level})
		if highest.Less(level) {
			highest = level
		}
	}
	w.Availability = highest
	for _, v := range versions {
		w.CUDAVersions = append(w.CUDAVersions, cudaAvailableV2{v, free})
	}
}

// addAvailability shows where a CPU flavor is in stock: everywhere, except where the catalog's file
// limits it.
func (q cpuQuery) addAvailability(w *cpuTypeV2, offered *catalog.Catalog, f catalog.CPU) {
	w.Availability = catalog.None
	if q.vcpus > f.MaxVCPU {
		return
	}
	for _, d := range offered.DataCenters {
		level, _ := levelIn(offered, catalog.Placing{CPU: f.ID, DataCenter: d.ID}, q.products, true)
		if level == catalog.None {
			continue
		}
		w.DataCenters = append(w.DataCenters, availabilityV2{d.ID, d.Name, level})
		if w.Availability.Less(level) {
			w.Availability = level
		}
	}
}

// gpusIn returns the stock of a data center for pods. It includes types that are sold out, but not
// those that the data center doesn't offer.
func gpusIn(offered *catalog.Catalog, d catalog.DataCenter, stock map[string]catalog.Stock) (out []availabilityV2) {
	for _, g := range offered.GPUsWith(stock) {
		level, stated := levelIn(offered, catalog.Placing{GPU: g.ID, DataCenter: d.ID}, []string{catalog.Pod}, stock[g.ID].Count > 0)
		if stated || level != catalog.None {
			out = append(out, availabilityV2{g.ID, g.Name, level})
		}
	}
	return out
}

func cpusIn(offered *catalog.Catalog, d catalog.DataCenter) []availabilityV2 {
	return convertAll(offered.CPUs, func(f catalog.CPU) availabilityV2 {
		level, _ := levelIn(offered, catalog.Placing{CPU: f.ID, DataCenter: d.ID}, []string{catalog.Pod}, true)
		return availabilityV2{f.ID, f.Name, level}
	})
}
