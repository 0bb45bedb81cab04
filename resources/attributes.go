// Package resources holds the managed resources, one file a kind: schema,
// model, short verbs, mappers and plan rule.
package resources

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

// All lists every kind.
var All = []kit.Managed{
	Cluster,
	Endpoint,
	NetworkVolume,
	Pod,
	RegistryAuth,
	RegistryDelegation,
	SSHKeys,
	Template,
}

func idAttribute(title string) schema.StringAttribute {
	return fixedAttribute("Id of the " + title + ", given by the API.")
}

// fixedAttribute is a text that the API gives, and that stays as long as the object.
func fixedAttribute(text string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: text,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

func deletionProtectionAttribute(title string) schema.BoolAttribute {
	return schema.BoolAttribute{
		Optional: true,
		MarkdownDescription: "Whether a plan that would delete or replace the " + title + " is refused. It is kept in the state alone, and no other tool knows it. " +
			"Set it to false, and apply that, before you delete the " + title + ".",
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

// objectType are the types of a nested attribute's members.
func objectType(a schema.Attribute) map[string]attr.Type {
	return a.GetType().(attr.TypeWithAttributeTypes).AttributeTypes()
}
