// Package resources holds the managed resources, one file a kind: schema,
// model, short verbs, mappers and plan rule.
package resources

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// All lists the constructors of every kind.
var All = []func() resource.Resource{
	Endpoint.Resource,
	NetworkVolume.Resource,
	RegistryAuth.Resource,
	Template.Resource,
}

func idAttribute(title string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: "Id of the " + title + ", given by the API.",
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

// optional is nil where the configuration leaves the choice to the server.
func optional(v types.String) *string {
	if !isSet(v) {
		return nil
	}
	return v.ValueStringPointer()
}

func isSet(v attr.Value) bool { return !v.IsNull() && !v.IsUnknown() }

func sorted(values []string) []string {
	return slices.Sorted(slices.Values(values))
}
