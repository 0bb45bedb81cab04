// Package catalog tells a plan what the catalog of the deployment says of it: whether
// what a configuration names exists, where it is, whether it is in stock and what it
// costs. Each list of the catalog is asked for once in a run, and nothing is written.
package catalog

import (
	"context"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

// Level is what becomes of a finding.
type Level string

// The levels, as a configuration writes them.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Off     Level = "off"
)

// Settings choose the checks.
type Settings struct {
	Names, Stock, DataCenters, Cost Level
	Ceiling                         Ceiling // of every object that has none of its own
}

// Checks are the checks of one run of the provider. A nil *Checks, of a run whose
// settings are not known yet, finds nothing.
type Checks struct {
	Settings

	client *api.Client
	failed atomic.Bool // a list could not be read: no other is asked for
	warned atomic.Bool // of that
	free   atomic.Bool // prices of 0 were warned of
}

// New returns checks against the catalog that a client reads.
func New(client *api.Client, s Settings) *Checks { return &Checks{Settings: s, client: client} }

// GPUTypes are the GPU types of the catalog; false where they can't be read, which the
// first in the run says as a warning.
func (c *Checks) GPUTypes(ctx context.Context, to diagnostics.Check) ([]api.GPUType, bool) {
	return list(ctx, c, to, nil, c.client.FindGPUTypes)
}

func (c *Checks) cpuTypes(ctx context.Context, to diagnostics.Check) ([]api.CPUType, bool) {
	return list(ctx, c, to, nil, c.client.FindCPUTypes)
}

// dataCenters have what each of them offers.
func (c *Checks) dataCenters(ctx context.Context, to diagnostics.Check) ([]api.DataCenter, bool) {
	return list(ctx, c, to, url.Values{"include": {"GPU_AVAILABILITY,CPU_AVAILABILITY"}}, c.client.FindDataCenters)
}

// gpuStock are the GPU types with the stock that a request can have. Requests that differ
// in product, cloud and GPUs of a machine have different stock.
func (c *Checks) gpuStock(ctx context.Context, to diagnostics.Check, r Request) ([]api.GPUType, bool) {
	query := url.Values{"include": {"AVAILABILITY"}, "product": {r.Product}}
	if r.Cloud != "" && r.Cloud != secure { // the default
		query.Set("cloud", r.Cloud)
	}
	if r.GPU.Count > 1 {
		query.Set("count", strconv.FormatInt(r.GPU.Count, 10))
	}
	return list(ctx, c, to, query, c.client.FindGPUTypes)
}

func (c *Checks) cpuStock(ctx context.Context, to diagnostics.Check, r Request) ([]api.CPUType, bool) {
	return list(ctx, c, to, url.Values{"include": {"AVAILABILITY"}, "product": {r.Product}}, c.client.FindCPUTypes)
}

// list reads a list of the catalog. After a failure none is asked for again: the checks
// must not hold up a plan of a thousand objects.
func list[T any](ctx context.Context, c *Checks, to diagnostics.Check, query url.Values, find func(context.Context, url.Values) ([]T, error)) ([]T, bool) {
	if c.failed.Load() {
		return nil, false
	}
	entries, err := find(ctx, query)
	if err != nil {
		c.failed.Store(ctx.Err() == nil)
		skipped := "names, stock, data centers and prices"
		if c.Ceiling.USD != nil {
			skipped += ", max_hourly_cost included"
		}
		c.warnOnce(to, "The catalog could not be read: %s\n\nThis plan goes on without the checks that need it (%s), for all resources.", err, skipped)
	}
	return entries, err == nil
}

// warnOnce says once in a run that checks are left out.
func (c *Checks) warnOnce(to diagnostics.Check, format string, args ...any) {
	if !c.warned.Swap(true) {
		to.Warn("", "The plan is not checked against the catalog", format, args...)
	}
}

// report says what a check found, as its level wants it.
func (l Level) report(to diagnostics.Check, at path.Path, summary, format string, args ...any) {
	switch l {
	case Error:
		to.ErrorAt(at, summary, format, args...)
	case Warning:
		to.WarnAt(at, summary, format, args...)
	}
}

// atMost is a level that is no more than a warning.
func (l Level) atMost(most Level) Level {
	if l == Error {
		return most
	}
	return l
}
