package catalog

import (
	"maps"
	"slices"
)

func (f *file) remove(c *Catalog) (err error) {
	if c.DataCenters, err = without(f, c.DataCenters, f.Remove.DataCenters, "data center", dataCenterID, c.closed); err != nil {
		return err
	}
	if c.GPUs, err = without(f, c.GPUs, f.Remove.GPUs, "GPU type", gpuID, c.removed); err != nil {
		return err
	}
	if c.CPUs, err = without(f, c.CPUs, f.Remove.CPUs, "CPU flavor", cpuID, nil); err != nil {
		return err
	}
	if c.Pools, err = without(f, c.Pools, f.Remove.Pools, "pool", poolID, nil); err != nil {
		return err
	}
	for id := range c.removed {
		c.leavePool(id)
	}
	return nil
}

// leavePool removes a type from its pool, and the pool if it becomes empty.
func (c *Catalog) leavePool(gpu string) {
	for i, p := range c.Pools {
		c.Pools[i].Types = slices.DeleteFunc(slices.Clone(p.Types), func(t string) bool { return t == gpu })
	}
	c.Pools = slices.DeleteFunc(c.Pools, func(p Pool) bool { return len(p.Types) == 0 })
}

func dataCenterID(d DataCenter) string { return d.ID }
func gpuID(g GPU) string               { return g.ID }
func cpuID(c CPU) string               { return c.ID }
func poolID(p Pool) string             { return p.ID }

func idsOf[T any](list []T, id func(T) string) (ids []string) {
	for _, element := range list {
		ids = append(ids, id(element))
	}
	return ids
}

// without returns the list without the named elements, and adds their ids to removed unless
// that is nil.
func without[T any](f *file, list []T, remove []text, kind string, id func(T) string, removed map[string]bool) ([]T, error) {
	known := idsOf(list, id)
	removedIDs := map[string]bool{}
	for _, r := range remove {
		switch {
		case r.Value == every:
			for _, k := range known {
				removedIDs[k] = true
			}
		case !slices.Contains(known, r.Value):
			return nil, f.unknown(r, kind, known)
		default:
			removedIDs[r.Value] = true
		}
	}
	if removed != nil {
		maps.Copy(removed, removedIDs)
	}
	return slices.DeleteFunc(list, func(element T) bool { return removedIDs[id(element)] }), nil
}
