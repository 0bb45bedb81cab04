package catalog

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// Products whose stock and prices differ.
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

// Request is what a planned object asks of a deployment. What the plan does not know yet
// is left out.
type Request struct {
	Product     string
	Cloud       string // SECURE where it is ""
	GPU         *GPUs  // nil: none
	CPU         []CPU  // any of these
	DataCenters []Ref  // any of these; none: any
	Volumes     []Volume
	VolumesAt   path.Path
	Machines    int64  // that run at the most
	MachinesIn  string // the attribute that says so; "" for one machine

	ComputeKnown, PlacesKnown bool // else nothing but names is checked
	Changes                   bool // of compute or places, or the object is new
}

// Ref is an id in a configuration.
type Ref struct {
	ID  string
	At  path.Path
	New bool // the state lacks it
}

// GPUs are those of a machine: of any of Types, or of any type of Pools but Excluded.
type GPUs struct {
	At       path.Path // of the attribute that chooses them
	Types    []Ref
	Pools    []Ref
	Excluded []string
	Count    int64
	CountAt  path.Path
	CountNew bool // the state has another one
}

// CPU is a flavour and its vCPUs.
type CPU struct {
	Ref
	VCPUs   int64
	VCPUsAt path.Path
}

// Volume is a network volume that machines mount: of several, any.
type Volume struct{ ID, DataCenter string }

// choose returns the GPU types that will do, and the ids that the catalog lacks.
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

// computeAt is the attribute that chooses the machine.
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
