package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

// Ceiling is the maximum cost of one object per hour.
type Ceiling struct {
	USD    *big.Rat // nil: no limit
	Source string   // where it is configured, for messages
}

// NewCeiling converts a configured number. Null and unknown numbers set no limit.
func NewCeiling(n types.Number, source string) Ceiling {
	if n.IsNull() || n.IsUnknown() {
		return Ceiling{}
	}
	// Use the decimal from the configuration; the binary number only approximates it.
	usd, _ := new(big.Rat).SetString(n.ValueBigFloat().Text('f', -1)) // can't fail: a number
	return Ceiling{usd, source}
}

// price is the cost of one unit per hour.
type price struct {
	machine string   // GPU type, or CPU flavor with its vCPUs
	unit    *big.Rat // price of one GPU or of the CPU configuration; nil if the catalog lacks it
	text    string   // how it is computed
}

// CheckCost reports a new or changed object that may cost more per hour than its limit or, if that is null,
// the provider's. Of several GPU types or CPU configurations, the most expensive one counts.
func (c *Checks) CheckCost(ctx context.Context, check diagnostics.Check, r Request, limit types.Number) {
	if c.Cost == Off || limit.IsUnknown() || !r.ComputeKnown || r.Machines == 0 {
		return
	}
	ceiling, at := c.Ceiling, r.computeAt()
	if !limit.IsNull() {
		ceiling, at = NewCeiling(limit, "max_hourly_cost of this resource"), path.Root("max_hourly_cost")
	}
	if ceiling.USD == nil {
		return
	}
	if c.client.Version == api.V1 {
		c.warnOnce(check, "Management API v1 has no catalog and no prices, so max_hourly_cost is not checked for any resource. Set api_version = %q to check it.", string(api.V2))
		return
	}
	prices, ok := c.prices(ctx, check, r)
	if !ok {
		return
	}
	var highest price
	var missing []string
	for _, p := range prices {
		switch {
		case p.unit == nil:
			missing = append(missing, p.machine)
		case highest.unit == nil || p.unit.Cmp(highest.unit) > 0:
			highest = p
		}
	}
	if highest.unit != nil && highest.unit.Sign() == 0 && len(missing) == 0 && !c.zeroPriceWarned.Swap(true) {
		check.WarnAt(at, "All prices of this object are 0", "max_hourly_cost of %s USD (%s) rejects nothing, because the catalog's prices for this object are 0. A jobrunner takes its prices from the file of --catalog.", decimal(ceiling.USD), ceiling.Source)
	}
	if highest.unit != nil {
		factor := r.Machines
		text := highest.text
		if r.GPU != nil {
			factor *= r.GPU.Count
			text += fmt.Sprintf(" × %d (%s)", r.GPU.Count, diagnostics.Name(r.GPU.CountAt))
		}
		if r.MachinesAttribute != "" {
			text += fmt.Sprintf(" × %d (%s)", r.Machines, r.MachinesAttribute)
		}
		if cost := new(big.Rat).Mul(highest.unit, new(big.Rat).SetInt64(factor)); cost.Cmp(ceiling.USD) > 0 {
			choice := ""
			if len(prices) > 1 {
				choice = fmt.Sprintf(", the most expensive of %d possible choices", len(prices))
			}
			c.Cost.report(check, at, "Above the cost ceiling", "It may cost %s USD an hour, and max_hourly_cost is %s USD (%s). Computed for %s%s: %s. Ask for less, or set a higher max_hourly_cost in this resource.",
				decimal(cost), decimal(ceiling.USD), ceiling.Source, highest.machine, choice, text)
			return
		}
	}
	if len(missing) > 0 || len(prices) == 0 {
		reason := "a configuration that accepts any GPU or CPU has no price"
		if len(missing) > 0 {
			reason = "the catalog has no price of " + strings.Join(missing, ", ") + " for " + r.productName()
		}
		check.WarnAt(at, "The cost is not known", "max_hourly_cost of %s USD (%s) is not compared: %s.", decimal(ceiling.USD), ceiling.Source, reason)
	}
}

// prices returns the prices of every type or configuration that a machine may get.
func (c *Checks) prices(ctx context.Context, check diagnostics.Check, r Request) (prices []price, ok bool) {
	switch {
	case r.GPU != nil:
		all, ok := c.GPUTypes(ctx, check)
		if !ok {
			return nil, false
		}
		types, missing := r.GPU.choose(all)
		for _, t := range types {
			prices = append(prices, r.gpuPrice(t))
		}
		for _, id := range missing {
			prices = append(prices, price{machine: id})
		}
	case len(r.CPU) > 0:
		all, ok := c.cpuTypes(ctx, check)
		if !ok {
			return nil, false
		}
		for _, cpu := range r.CPU {
			prices = append(prices, r.cpuPrice(cpu, all))
		}
	}
	return prices, true
}

func (r Request) gpuPrice(t api.GPUType) price {
	figure, tariff := t.Price.Secure, "secure"
	switch {
	case r.Product == Serverless:
		figure, tariff = t.Price.Serverless, "serverless"
	case r.cloud() == community:
		figure, tariff = t.Price.Community, "community"
	}
	if r.Product != Serverless && r.inCloud(t.MaxCount) == 0 {
		figure = "" // the cloud doesn't offer the type
	}
	unit := amount(figure)
	if unit == nil {
		return price{machine: t.ID}
	}
	return price{t.ID, unit, fmt.Sprintf("%s USD (%s price of a GPU)", decimal(unit), tariff)}
}

func (r Request) cpuPrice(cpu CPU, all []api.CPUType) price {
	p := price{machine: fmt.Sprintf("%s with %d vCPUs", cpu.ID, cpu.VCPUs)}
	for _, t := range all {
		figure, tariff := t.Price.SecurePerVCPU, "secure"
		switch {
		case t.ID != cpu.ID:
			continue
		case r.Product == Serverless:
			figure, tariff = t.Price.ServerlessPerVCPU, "serverless"
		case r.cloud() == community:
			figure = "" // the catalog has no price
		}
		if perVCPU := amount(figure); perVCPU != nil {
			p.unit = new(big.Rat).Mul(perVCPU, new(big.Rat).SetInt64(cpu.VCPUs))
			p.text = fmt.Sprintf("%s USD (%s price of a vCPU) × %d (%s)", decimal(perVCPU), tariff, cpu.VCPUs, diagnostics.Name(cpu.VCPUsAt))
		}
	}
	return p
}

// amount converts a price of the catalog. It returns nil for "".
func amount(figure json.Number) *big.Rat {
	r, _ := new(big.Rat).SetString(figure.String())
	return r
}

// decimal formats an amount without trailing zeros.
func decimal(r *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(r.FloatString(12), "0"), ".")
}
