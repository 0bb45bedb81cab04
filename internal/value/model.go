package value

import (
	"context"
	"reflect"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Load sets a resource's model from a state. A caller converts a configuration or plan:
// tfsdk.State(plan). It replaces the framework's Get, which compiles a regular expression for each field.
func Load(ctx context.Context, from tfsdk.State, model any) (diags diag.Diagnostics) {
	object, err := from.Schema.Type().ValueFromTerraform(ctx, from.Raw)
	if err != nil {
		diags.AddError("Invalid value", err.Error())
		return diags
	}
	if object.IsNull() || object.IsUnknown() {
		diags.AddError("Invalid value", "The whole object is null or unknown.")
		return diags
	}
	for name, v := range object.(types.Object).Attributes() {
		if field := field(reflect.ValueOf(model).Elem(), name); field.IsValid() {
			field.Set(reflect.ValueOf(v))
		}
	}
	return diags
}

// Store sets a state from a resource's model, like the framework's Set.
func Store(ctx context.Context, to *tfsdk.State, model any) diag.Diagnostics {
	kinds, members := to.Schema.Type().(attr.TypeWithAttributeTypes).AttributeTypes(), map[string]attr.Value{}
	for name := range kinds {
		if v := Attribute(model, name); v != nil {
			members[name] = v
		}
	}
	object, diags := types.ObjectValue(kinds, members)
	if diags.HasError() {
		return diags
	}
	raw, err := object.ToTerraformValue(ctx)
	if err != nil {
		diags.AddError("Invalid value", err.Error())
		return diags
	}
	to.Raw = raw
	return diags
}

// Merge sets the attributes of a state for which an API object has a field. The others keep their
// values.
func Merge(ctx context.Context, to *tfsdk.State, object any) error {
	var members map[string]tftypes.Value
	if err := to.Raw.As(&members); err != nil {
		return err
	}
	for name, kind := range to.Schema.Type().(attr.TypeWithAttributeTypes).AttributeTypes() {
		if got := field(reflect.ValueOf(object), name); got.IsValid() {
			v, err := flatten(Null(kind), got).ToTerraformValue(ctx)
			if err != nil {
				return err
			}
			members[name] = v
		}
	}
	to.Raw = tftypes.NewValue(to.Raw.Type(), members)
	return nil
}

// Attribute returns a model's value of an attribute, or nil if the model lacks it.
func Attribute(model any, name string) attr.Value {
	if field := field(reflect.ValueOf(model).Elem(), name); field.IsValid() {
		return field.Interface().(attr.Value)
	}
	return nil
}

// SetAttribute sets the field of an attribute, which the model must have.
func SetAttribute(model any, name string, v attr.Value) {
	field(reflect.ValueOf(model).Elem(), name).Set(reflect.ValueOf(v))
}

// Text returns the field of an attribute that is a string. The model must have it.
func Text(model any, name string) *types.String {
	return field(reflect.ValueOf(model).Elem(), name).Addr().Interface().(*types.String)
}

// field returns the field of a struct for an attribute: DataCenterIDs for data_center_ids.
func field(of reflect.Value, attribute string) (field reflect.Value) {
	if index, ok := fields(of.Type())[lettersOf(attribute)]; ok {
		field = of.FieldByIndex(index)
	}
	return field
}

// lettersOf returns the letters that an attribute's name and Go's spelling of it have in common.
func lettersOf(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

var structs sync.Map // the fields' indexes of each type, by the letters of the attribute's name

func fields(of reflect.Type) map[string][]int {
	if known, ok := structs.Load(of); ok {
		return known.(map[string][]int)
	}
	indexes := map[string][]int{}
	for _, f := range reflect.VisibleFields(of) {
		if f.IsExported() {
			indexes[lettersOf(f.Name)] = f.Index
		}
	}
	structs.Store(of, indexes)
	return indexes
}

// KeepRequired keeps the values of required attributes that an answer lacks: every object has them, so
// the next plan must not replace the object.
func KeepRequired(before tfsdk.State, after *tfsdk.State) {
	var had, has map[string]tftypes.Value
	if before.Raw.As(&had) != nil || after.Raw.As(&has) != nil {
		return
	}
	for name, attribute := range after.Schema.GetAttributes() {
		if v := has[name]; attribute.IsRequired() && (v.IsNull() || v.Equal(tftypes.NewValue(tftypes.String, ""))) {
			has[name] = had[name]
		}
	}
	after.Raw = tftypes.NewValue(after.Raw.Type(), has)
}
