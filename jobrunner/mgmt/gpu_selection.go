package mgmt

import (
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Version 1 selects GPUs by types in order of priority, version 2 by pools minus excluded types. The
// store keeps the selection as sent, and the catalog converts it for the other version.

// selectedTypes returns the selection in the form of version 1.
func selectedTypes(offered *catalog.Catalog, g store.GPU) []string {
	if len(g.Pools) == 0 {
		return nonNilList(g.TypeIDs)
	}
	return offered.TypesIn(g.Pools, g.ExcludedTypes)
}

// selectedPools returns the selection in the form of version 2; any GPU means all pools. It returns no
// pools for types outside all pools, which version 2 can't express.
func selectedPools(offered *catalog.Catalog, g store.GPU) (pools, excluded []string) {
	switch {
	case len(g.Pools) > 0:
		return g.Pools, nonNilList(g.ExcludedTypes)
	case len(g.TypeIDs) > 0:
		return offered.Select(g.TypeIDs)
	}
	return convertAll(offered.Pools, func(p catalog.Pool) string { return p.ID }), []string{}
}

// chooseTypes sets a selection of version 1.
func chooseTypes(g *store.GPU, typeIDs *[]string) {
	if typeIDs != nil {
		g.Pools, g.ExcludedTypes, g.TypeIDs = nil, nil, *typeIDs
	}
}

// choosePools sets a selection of version 2. Pools without exclusions clear the old exclusions. If the
// types already select the same GPUs, they stay, because of their order.
func choosePools(offered *catalog.Catalog, g *store.GPU, newPools, newExcluded *[]string) {
	if newPools == nil {
		return
	}
	pools, excluded := *newPools, []string{}
	if newExcluded != nil {
		for _, id := range *newExcluded {
			if id = strings.TrimSpace(id); !slices.Contains(excluded, id) {
				excluded = append(excluded, id)
			}
		}
	}
	if len(g.TypeIDs) > 0 && !slices.ContainsFunc(g.TypeIDs, func(id string) bool { return offered.PoolOf(id) == "" }) {
		samePools, sameExcluded := offered.Select(g.TypeIDs)
		if sameElements(pools, samePools) && sameElements(excluded, sameExcluded) {
			return
		}
	}
	g.Pools, g.ExcludedTypes, g.TypeIDs = pools, excluded, nil
}
