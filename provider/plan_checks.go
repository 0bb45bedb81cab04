package provider

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

const ceilingVariable = "GPUCLOUD_MAX_HOURLY_COST"

// planCheckAttributes are the settings of the catalog checks and the cost ceiling.
var planCheckAttributes = map[string]schema.Attribute{
	"max_hourly_cost": schema.NumberAttribute{
		Optional:            true,
		MarkdownDescription: "Maximum price per hour, in USD, of each endpoint, pod or cluster. A resource's `max_hourly_cost` replaces it ([cost ceilings](guides/costs.md)). API v1 has no prices. Environment variable: `" + ceilingVariable + "`.",
	},
	"plan_checks": schema.SingleNestedAttribute{
		Validators:          rule.SomeAttribute,
		Optional:            true,
		MarkdownDescription: "Which catalog checks run at plan time for created and changed objects. Each is `error`, `warning` or `off` ([cost ceilings](guides/costs.md)).",
		Attributes: map[string]schema.Attribute{
			"names":        levelAttribute("Finds unknown ids, and GPU or vCPU counts that no machine has. Default `error`. An unknown data center is a warning, or an error if the plan replaces the object. On API v1 at most a warning."),
			"stock":        levelAttribute("Finds objects for which nothing is in stock. Default `warning`. Not on API v1."),
			"data_centers": levelAttribute("Finds objects whose volumes, `data_center_ids`, and GPUs or CPUs have no data center in common, and storage tiers that a data center lacks. Default `error`."),
			"cost":         levelAttribute("Finds objects above their `max_hourly_cost`. Default `error`. An unknown price is a warning."),
		},
	},
}

func levelAttribute(text string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional:            true,
		MarkdownDescription: text,
		Validators:          []validator.String{rule.OneOf(string(catalog.Error), string(catalog.Warning), string(catalog.Off))},
	}
}

type planChecks struct{ Names, Stock, DataCenters, Cost catalog.Level }

// catalogSettings returns the checks that the block configures. A check whose level is null or
// unknown uses its default.
func (s settings) catalogSettings(diags *diag.Diagnostics) catalog.Settings {
	checks := cmp.Or(value.As[planChecks](s.PlanChecks), &planChecks{})
	return catalog.Settings{
		Names: cmp.Or(checks.Names, catalog.Error), Stock: cmp.Or(checks.Stock, catalog.Warning),
		DataCenters: cmp.Or(checks.DataCenters, catalog.Error), Cost: cmp.Or(checks.Cost, catalog.Error),
		Ceiling: s.ceiling(diags),
	}
}

// ceiling returns the cost ceiling from the block or else from the environment.
func (s settings) ceiling(diags *diag.Diagnostics) catalog.Ceiling {
	usd, source := s.MaxHourlyCost, "max_hourly_cost of the provider block"
	if text, variable := attributeOrEnv(types.StringNull(), ceilingVariable); usd.IsNull() && text != "" {
		n, _, err := big.ParseFloat(strings.TrimSpace(text), 10, 512, big.ToNearestEven)
		if err != nil || n.IsInf() || n.Sign() < 0 {
			diags.AddAttributeError(path.Root("max_hourly_cost"), "Invalid max_hourly_cost", fmt.Sprintf("%s is %q. Write a number of USD, such as 2.5.", variable, text))
			return catalog.Ceiling{}
		}
		usd, source = types.NumberValue(n), variable
	}
	if !usd.IsNull() && !usd.IsUnknown() && usd.ValueBigFloat().Sign() < 0 {
		diags.AddAttributeError(path.Root("max_hourly_cost"), "Invalid max_hourly_cost", "Invalid max_hourly_cost: expected at least 0, got "+usd.String()+".")
	}
	return catalog.NewCeiling(usd, source)
}
