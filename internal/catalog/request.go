package catalog

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// Products with different stock and prices.
const (
	Pod        = "POD"
	Cluster    = "CLUSTER"
	Serverless = "SERVERLESS"
)

// Clouds of pods.
const (
	secure    = "SECURE"
	community = "COMMUNITY"
)

// Request describes what a planned object needs from a deployment. It omits unknown values.
type Request struct {
	Product     string
	Cloud       string // "" means SECURE
	GPU         *GPUs  // nil: no GPUs
	CPU         []CPU  // one of these
	DataCenters []Ref  // one of these; empty means any
	Volumes     []Volume
	VolumesAt   path.Path
	Machines    int64  // maximum number of running machines
	MachinesIn  string // attribute with that number; "" for one machine

	ComputeKnown, PlacesKnown bool // if false, only names are checked
	Changes                   bool // compute or places change, or the object is new
}

// Ref is an id in a configuration.
type Ref struct {
	ID  string
	At  path.Path
	New bool // not in the state
}

// GPUs are the GPUs of a machine: one of Types, or one of the types in Pools except Excluded.
type GPUs struct {
	At       path.Path // the attribute that selects them
	Types    []Ref
	Pools    []Ref
	Excluded []string
	Count    int64
	CountAt  path.Path
	CountNew bool // differs from the state
}

// CPU is a flavor with its vCPUs.
type CPU struct {
	Ref
	VCPUs   int64
	VCPUsAt path.Path
}

// Volume is a network volume. A machine mounts one of the request's volumes.
type Volume struct{ ID, DataCenter string }

// choose returns the selected GPU types, and the ids that the catalog lacks.
func (g *GPUs) choose(all []api.GPUType) (types []api.GPUType, missing []string) {
	pick := func(refs []Ref, key func(api.GPUType) string) {
		for _, ref := range refs {
			found := false
			for _, t := range all {
				if key(t) != ref.ID {
					continue
				}
				found = true
				if !slices.Contains(g.Excluded, t.ID) {
					types = append(types, t)
				}
			}
			if !found {
				missing = append(missing, ref.ID)
			}
		}
	}
	pick(g.Types, gpuID)
	pick(g.Pools, gpuPool)
	return types, missing
}

func gpuID(t api.GPUType) string   { return t.ID }
func gpuPool(t api.GPUType) string { return t.Pool }
func cpuID(t api.CPUType) string   { return t.ID }

func dataCenterID(d api.DataCenter) string { return d.ID }

// computeAt returns the path of the attribute that selects the machine.
func (r Request) computeAt() path.Path {
	switch {
	case r.GPU != nil:
		return r.GPU.At
	case len(r.CPU) == 1:
		return r.CPU[0].At
	case len(r.CPU) > 1:
		return r.CPU[0].At.ParentPath().ParentPath()
	}
	return path.Empty()
}
