// Package catalog checks a plan against the deployment's catalog: whether the named types and
// places exist and have stock, and what the object costs. It reads each list once per run and
// writes nothing.
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

// Level is the severity of a finding.
type Level string

// The levels in configurations.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Off     Level = "off"
)

// Settings are the levels of the checks and the cost limit.
type Settings struct {
	Names, Stock, DataCenters, Cost Level
	Ceiling                         Ceiling // limit for objects without their own
}

// Checks are the checks of one run of the provider. A nil *Checks, before the settings are
// known, reports nothing.
type Checks struct {
	Settings

	client *api.Client
	failed atomic.Bool // a list couldn't be read: no other is requested
	warned atomic.Bool // the warning about that was reported
	free   atomic.Bool // the warning about prices of 0 was reported
}

// New returns checks against the catalog of a client's deployment.
func New(client *api.Client, s Settings) *Checks { return &Checks{Settings: s, client: client} }

// GPUTypes returns the GPU types of the catalog. It returns false if they can't be read; the
// first failure in a run is reported as a warning.
func (c *Checks) GPUTypes(ctx context.Context, to diagnostics.Check) ([]api.GPUType, bool) {
	return list(ctx, c, to, nil, c.client.FindGPUTypes)
}

func (c *Checks) cpuTypes(ctx context.Context, to diagnostics.Check) ([]api.CPUType, bool) {
	return list(ctx, c, to, nil, c.client.FindCPUTypes)
}

// dataCenters returns the data centers with their stock.
func (c *Checks) dataCenters(ctx context.Context, to diagnostics.Check) ([]api.DataCenter, bool) {
	return list(ctx, c, to, url.Values{"include": {"GPU_AVAILABILITY,CPU_AVAILABILITY"}}, c.client.FindDataCenters)
}

// gpuStock returns the GPU types with their stock for a request, which depends on its product,
// cloud and GPUs per machine.
func (c *Checks) gpuStock(ctx context.Context, to diagnostics.Check, r Request) ([]api.GPUType, bool) {
	query := url.Values{"include": {"AVAILABILITY"}, "product": {r.Product}}
	if r.Cloud != "" && r.Cloud != secure { // secure is the API's default
		query.Set("cloud", r.Cloud)
	}
	if r.GPU.Count > 1 {
		query.Set("count", strconv.FormatInt(r.GPU.Count, 10))
	}
	return list(ctx, c, to, query, c.client.FindGPUTypes)
}

// list reads a list of the catalog. After a failure it reads no other, because the checks must
// not delay a plan with a thousand objects.
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

// warnOnce reports once per run that checks are skipped.
func (c *Checks) warnOnce(to diagnostics.Check, format string, args ...any) {
	if !c.warned.Swap(true) {
		to.Warn("", "The plan is not checked against the catalog", format, args...)
	}
}

// report reports a finding with the severity of its level.
func (l Level) report(to diagnostics.Check, at path.Path, summary, format string, args ...any) {
	switch l {
	case Error:
		to.ErrorAt(at, summary, format, args...)
	case Warning:
		to.WarnAt(at, summary, format, args...)
	}
}

// atMost reduces a level to at most another one.
func (l Level) atMost(most Level) Level {
	if l == Error {
		return most
	}
	return l
}
