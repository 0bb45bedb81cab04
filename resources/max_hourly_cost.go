package resources

import (
	"context"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// maxHourlyCostAttribute is the cost limit of an object.
func maxHourlyCostAttribute() schema.NumberAttribute {
	return schema.NumberAttribute{
		Optional:            true,
		MarkdownDescription: "Maximum price per hour, in USD, instead of the provider's `max_hourly_cost` ([cost ceilings](../guides/costs.md)). Kept only in the state.",
		Validators:          []validator.Number{notNegative{}},
	}
}

// notNegative rejects a number below 0.
type notNegative struct{ describedByError }

func (notNegative) ValidateNumber(_ context.Context, req validator.NumberRequest, resp *validator.NumberResponse) {
	if n := req.ConfigValue; isSet(n) && n.ValueBigFloat().Cmp(new(big.Float)) < 0 {
		refuse(req.Path, "at least 0", n.ValueBigFloat().String(), &resp.Diagnostics)
	}
}
