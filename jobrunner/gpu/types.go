package gpu

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// Canonical spells a product name as the catalog spells the type. Spaces and
// case don't count, older drivers leave the maker out, and some cards are in
// the catalog more than once, of which the first is taken. A name that the
// catalog doesn't have is a type of its own.
func Canonical(product string) string {
	product = strings.Join(strings.Fields(product), " ")
	short := strings.TrimPrefix(product, "NVIDIA ")
	for _, name := range []string{product, "NVIDIA " + short, short} {
		for _, g := range catalog.GPUs {
			if strings.EqualFold(strings.Join(strings.Fields(g.ID), " "), name) {
				return firstNamed(g.Name)
			}
		}
	}
	return product
}

// firstNamed finds the first of the catalog's types that are the same card.
func firstNamed(card string) string {
	i := slices.IndexFunc(catalog.GPUs, func(g catalog.GPU) bool { return g.Name == card })
	return catalog.GPUs[i].ID
}

// instanceType is the type of a MIG instance, named as the driver names it.
func instanceType(typeID, profile string) string { return typeID + " MIG " + profile }

// typesFor are the types that will do for a request, the best first. Where any
// will do that is the smallest, so that the large ones stay for those who name
// them.
func typesFor(want Request, devices []Device) (types []string) {
	for _, t := range want.Types {
		if t = Canonical(t); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	if len(types) > 0 {
		return types
	}
	bySize := slices.Clone(devices)
	slices.SortStableFunc(bySize, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.TypeID, b.TypeID))
	})
	for _, d := range bySize {
		if !slices.Contains(types, d.TypeID) {
			types = append(types, d.TypeID)
		}
	}
	return types
}

// fits reports whether a device can be one of those that a worker has: CUDA
// shows a process one MIG instance at most.
func (want Request) fits(d Device) bool { return d.MIG == "" || want.count() == 1 }

func (want Request) count() int { return max(1, want.Count) }
