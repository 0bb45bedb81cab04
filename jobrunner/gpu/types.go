package gpu

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// Canonical maps a product name to the catalog's type id. It ignores spaces, case, and a missing
// manufacturer (older drivers). If the catalog has several types for a card, it returns the first.
// A name that isn't in the catalog is a type of its own.
func Canonical(product string) string {
	product = strings.Join(strings.Fields(product), " ")
	shortName := strings.TrimPrefix(product, "NVIDIA ")
	for _, name := range []string{product, "NVIDIA " + shortName, shortName} {
		for _, g := range contract.GPUTypes {
			if strings.EqualFold(strings.Join(strings.Fields(g.ID), " "), name) {
				return firstTypeOfCard(g.Name)
			}
		}
	}
	return product
}

// firstTypeOfCard returns the first of the catalog's types for a card.
func firstTypeOfCard(card string) string {
	i := slices.IndexFunc(contract.GPUTypes, func(g catalog.GPU) bool { return g.Name == card })
	return contract.GPUTypes[i].ID
}

// InstanceType returns the type of a MIG instance, named as the driver names it.
func InstanceType(typeID, profile string) string { return typeID + " MIG " + profile }

// acceptedTypes returns the types that a request accepts, the best first. If it accepts any type, the
// smallest comes first, so that large ones stay free for requests that name them.
func acceptedTypes(request Request, devices []Device) (types []string) {
	for _, t := range request.Types {
		if t = Canonical(t); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	if len(types) > 0 {
		return request.accepted(types)
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
	return request.accepted(types)
}

func (request Request) accepted(types []string) []string {
	if request.Accept == nil {
		return types
	}
	return slices.DeleteFunc(types, func(t string) bool { return !request.Accept(t) })
}

// fits reports whether a device can be allocated to a request. A process can use at most one MIG
// instance.
func (request Request) fits(d Device) bool { return d.MIG == "" || request.count() == 1 }

// count is the number of devices of one worker, pod or member; total is the number for all members.
func (request Request) count() int { return max(1, request.Count) }
func (request Request) total() int { return request.count() * max(1, request.Members) }
