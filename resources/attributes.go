// Package resources holds the managed resources. The files that begin with the name of a kind have its
// schema, model, functions, mappers and plan rule.
package resources

import (
	"context"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// All lists every kind.
var All = []kit.Managed{
	Cluster,
	Endpoint,
	GlobalVolume,
	NetworkVolume,
	Pod,
	RegistryAuth,
	RegistryDelegation,
	Secret,
	SSHKeys,
	Template,
}

func idAttribute(title string) schema.StringAttribute {
	return stableText("Id of the " + title + ", given by the API.")
}

// stableText is a computed text that a plan keeps, unless the kind's plan rule makes it unknown.
func stableText(text string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: text,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

func deletionProtectionAttribute(title string) schema.BoolAttribute {
	return schema.BoolAttribute{
		Optional:            true,
		MarkdownDescription: "If true, plans that would delete or replace the " + title + " are rejected until `false` is applied. Kept only in the state.",
	}
}

type attributes = map[string]schema.Attribute

func requiredObject(text string, members attributes) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{Required: true, MarkdownDescription: text, Attributes: members}
}

func optionalObject(text string, members attributes) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{Optional: true, MarkdownDescription: text, Attributes: members}
}

func computedObject(text string, members attributes) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: text, Attributes: members}
}

// nonEmptyObject is an optional object that draws a warning if none of its members is set.
func nonEmptyObject(text string, members attributes) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{Optional: true, MarkdownDescription: text, Validators: rule.SomeAttribute, Attributes: members}
}

// keptIfOmitted is an optional attribute. An imported or moved object keeps its value if the
// configuration omits it (planrule.Plan.KeepOmitted).
func keptIfOmitted(a schema.Attribute) schema.Attribute {
	out := reflect.New(reflect.TypeOf(a)).Elem()
	out.Set(reflect.ValueOf(a))
	out.FieldByName("Computed").SetBool(true)
	out.FieldByName("MarkdownDescription").SetString(a.GetMarkdownDescription() + " If omitted, an imported or moved object keeps its value.")
	return out.Interface().(schema.Attribute)
}

// defaultTo plans a default that only a create uses. An existing object keeps its value.
func defaultTo[V attr.Value](config, state, fallback V) V {
	switch {
	case !config.IsNull():
		return config
	case !state.IsNull():
		return state
	}
	return fallback
}

// pointerIfSet returns nil if v is null or unknown: the server chooses the value.
func pointerIfSet(v types.String) *string {
	if !value.IsSet(v) {
		return nil
	}
	return v.ValueStringPointer()
}

// deref returns the value of a pointer, or the zero value if it is nil.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func sorted(values []string) []string {
	return slices.Sorted(slices.Values(values))
}

// objectType returns the types of a nested attribute's members.
func objectType(a schema.Attribute) map[string]attr.Type {
	return a.GetType().(attr.TypeWithAttributeTypes).AttributeTypes()
}

func maxHourlyCostAttribute() schema.NumberAttribute {
	return schema.NumberAttribute{
		Optional:            true,
		MarkdownDescription: "Maximum price per hour, in USD, instead of the provider's `max_hourly_cost` ([cost ceilings](../guides/costs.md)). Kept only in the state.",
		Validators:          []validator.Number{notNegative{}},
	}
}

type notNegative struct{ rule.Undescribed }

func (notNegative) ValidateNumber(_ context.Context, req validator.NumberRequest, resp *validator.NumberResponse) {
	if n := req.ConfigValue; value.IsSet(n) && n.ValueBigFloat().Sign() < 0 {
		rule.Reject(req.Path, "at least 0", n.ValueBigFloat().String(), &resp.Diagnostics)
	}
}
