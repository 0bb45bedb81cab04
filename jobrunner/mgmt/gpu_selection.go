package mgmt

import (
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Version 1 chooses GPUs by types in order of priority, version 2 by pools less
// excluded types. What was sent is kept, and the other view is derived from it
// through the catalog.

// typesOf is version 1's view.
func typesOf(g store.GPU) []string {
	if len(g.Pools) == 0 {
		return list(g.TypeIDs)
	}
	return catalog.TypesIn(g.Pools, g.ExcludedTypes)
}

// poolsOf is version 2's view. Any GPU is all pools. There are none where the
// types are in no pool: version 2 has no words for such a selection.
func poolsOf(g store.GPU) (pools, excluded []string) {
	switch {
	case len(g.Pools) > 0:
		return g.Pools, list(g.ExcludedTypes)
	case len(g.TypeIDs) > 0:
		return catalog.Select(g.TypeIDs)
	}
	return each(catalog.Pools, func(p catalog.Pool) string { return p.ID }), []string{}
}

// chooseTypes takes over what version 1 sent.
func chooseTypes(g *store.GPU, typeIDs *[]string) {
	if typeIDs != nil {
		g.Pools, g.ExcludedTypes, g.TypeIDs = nil, nil, *typeIDs
	}
}

// choosePools takes over what version 2 sent: pools replace the exclusions too.
// Types that mean the same are left, for their order.
func choosePools(g *store.GPU, sentPools, sentExcluded *[]string) {
	if sentPools == nil {
		return
	}
	pools, excluded := *sentPools, []string{}
	if sentExcluded != nil {
		for _, id := range *sentExcluded {
			if id = strings.TrimSpace(id); !slices.Contains(excluded, id) {
				excluded = append(excluded, id)
			}
		}
	}
	if len(g.TypeIDs) > 0 && !slices.ContainsFunc(g.TypeIDs, func(id string) bool { return catalog.PoolOf(id) == "" }) {
		samePools, sameExcluded := catalog.Select(g.TypeIDs)
		if sameElements(pools, samePools) && sameElements(excluded, sameExcluded) {
			return
		}
	}
	g.Pools, g.ExcludedTypes, g.TypeIDs = pools, excluded, nil
}
