// Package catalog checks a plan against the deployment's catalog: whether the named types and places exist
// and have stock, and what the object costs. It reads each list once per run and writes nothing.
package catalog

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

type Level string

const (
	Error   Level = "error"
	Warning Level = "warning"
	Off     Level = "off"
)

// Settings are the levels of the checks and the cost ceiling.
type Settings struct {
	Names, Stock, DataCenters, Cost Level
	Ceiling                         Ceiling // limit for objects without their own
}

// Checks are the checks of one run of the provider. A nil *Checks reports nothing.
type Checks struct {
	Settings

	client          *api.Client
	listFailed      atomic.Bool // a list couldn't be read, so no other is requested
	skipWarned      atomic.Bool // a warning has said that checks are skipped
	zeroPriceWarned atomic.Bool // a warning has named prices of 0
}

// New returns checks against the catalog of a client's deployment.
func New(client *api.Client, s Settings) *Checks { return &Checks{Settings: s, client: client} }

// GPUTypes returns the GPU types of the catalog. It returns false if they can't be read; the
// first failure in a run is reported as a warning.
func (c *Checks) GPUTypes(ctx context.Context, check diagnostics.Check) ([]api.GPUType, bool) {
	return list(ctx, c, check, nil, c.client.GPUTypes)
}

func (c *Checks) cpuTypes(ctx context.Context, check diagnostics.Check) ([]api.CPUType, bool) {
	return list(ctx, c, check, nil, c.client.CPUTypes)
}

// dataCenters returns the data centers with their stock.
func (c *Checks) dataCenters(ctx context.Context, check diagnostics.Check) ([]api.DataCenter, bool) {
	return list(ctx, c, check, url.Values{"include": {"GPU_AVAILABILITY,CPU_AVAILABILITY"}}, c.client.DataCenters)
}

// gpuStock returns the GPU types with their stock for a request's product, cloud and GPUs per machine.
func (c *Checks) gpuStock(ctx context.Context, check diagnostics.Check, r Request) ([]api.GPUType, bool) {
	query := url.Values{"include": {"AVAILABILITY"}, "product": {r.Product}}
	if r.Cloud != "" && r.Cloud != secure { // secure is the API's default
		query.Set("cloud", r.Cloud)
	}
	if r.GPU.Count > 1 {
		query.Set("count", strconv.FormatInt(r.GPU.Count, 10))
	}
	return list(ctx, c, check, query, c.client.GPUTypes)
}

// list reads a list of the catalog. After a failure it reads no more lists, because checks must not delay a plan
// of a thousand objects.
func list[T any](ctx context.Context, c *Checks, check diagnostics.Check, query url.Values, source *api.CatalogList[T]) ([]T, bool) {
	if c.listFailed.Load() {
		return nil, false
	}
	entries, err := source.Find(ctx, query)
	if err != nil {
		c.listFailed.Store(ctx.Err() == nil)
		skipped := "names, stock, data centers and prices"
		if c.Ceiling.USD != nil {
			skipped += ", max_hourly_cost included"
		}
		c.warnOnce(check, "The catalog could not be read: %s\n\nThis plan skips the checks that need it (%s) for all resources.", err, skipped)
	}
	return entries, err == nil
}

// warnOnce reports once per run that checks are skipped.
func (c *Checks) warnOnce(check diagnostics.Check, format string, args ...any) {
	if !c.skipWarned.Swap(true) {
		check.Warn("", "The plan is not checked against the catalog", format, args...)
	}
}

func (l Level) report(check diagnostics.Check, at path.Path, summary, format string, args ...any) {
	switch l {
	case Error:
		check.ErrorAt(at, summary, format, args...)
	case Warning:
		check.WarnAt(at, summary, format, args...)
	}
}

func (l Level) atMostWarning() Level {
	if l == Error {
		return Warning
	}
	return l
}

// Products with different stock and prices.
const (
	Pod        = "POD"
	Cluster    = "CLUSTER"
	Serverless = "SERVERLESS"
)

const (
	secure    = "SECURE"
	community = "COMMUNITY"
)

// Request describes what a planned object needs from a deployment. It omits unknown values.
type Request struct {
	Product           string
	Cloud             string // "" means SECURE
	GPU               *GPUs  // nil: no GPUs
	CPU               []CPU  // one of these
	DataCenters       []Ref  // one of these; empty means any
	Volumes           []Volume
	VolumesAt         path.Path
	Machines          int64  // maximum number of running machines
	MachinesAttribute string // attribute with that number; "" for one machine

	ComputeKnown bool // if false, GPU counts, stock, cost and the places of compute aren't checked
	PlacesKnown  bool // if false, stock and places aren't checked
	Changes      bool // compute or places change, or the object is new
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
