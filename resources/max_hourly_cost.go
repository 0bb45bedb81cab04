package resources

import (
	"context"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// maxHourlyCostAttribute is the cost ceiling of an object; compared says with what.
func maxHourlyCostAttribute(compared string) schema.NumberAttribute {
	return schema.NumberAttribute{
		Optional: true,
		MarkdownDescription: "Most that it may cost in an hour, in USD, in place of the provider's `max_hourly_cost`: a plan that creates or changes it is refused where " + compared +
			" is more ([cost ceilings](../guides/costs.md)). It is kept in the state alone. API v1 has no prices.",
		Validators: []validator.Number{notNegative{}},
	}
}

// notNegative refuses a number below 0.
type notNegative struct{}

func (notNegative) Description(context.Context) string         { return "expected at least 0" }
func (notNegative) MarkdownDescription(context.Context) string { return "expected at least 0" }

func (notNegative) ValidateNumber(_ context.Context, req validator.NumberRequest, resp *validator.NumberResponse) {
	if n := req.ConfigValue; isSet(n) && n.ValueBigFloat().Cmp(new(big.Float)) < 0 {
		refuse(req.Path, "at least 0", n.ValueBigFloat().String(), &resp.Diagnostics)
	}
}
