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

// Load sets a resource's model from a state, or from a configuration or plan, which the caller converts:
// tfsdk.State(plan). Load replaces the framework's Get, which compiles a regular expression for each field.
func Load(ctx context.Context, state tfsdk.State, model any) (diags diag.Diagnostics) {
	object, err := state.Schema.Type().ValueFromTerraform(ctx, state.Raw)
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
func Store(ctx context.Context, state *tfsdk.State, model any) diag.Diagnostics {
	attributes, members := state.Schema.Type().(attr.TypeWithAttributeTypes).AttributeTypes(), map[string]attr.Value{}
	for name := range attributes {
		if v := Attribute(model, name); v != nil {
			members[name] = v
		}
	}
	object, diags := types.ObjectValue(attributes, members)
	if diags.HasError() {
		return diags
	}
	raw, err := object.ToTerraformValue(ctx)
	if err != nil {
		diags.AddError("Invalid value", err.Error())
		return diags
	}
	state.Raw = raw
	return diags
}

// Merge sets the attributes of a state for which an API object has a field.
func Merge(ctx context.Context, state *tfsdk.State, object any) error {
	var members map[string]tftypes.Value
	if err := state.Raw.As(&members); err != nil {
		return err
	}
	for name, typ := range state.Schema.Type().(attr.TypeWithAttributeTypes).AttributeTypes() {
		if got := field(reflect.ValueOf(object), name); got.IsValid() {
			v, err := flatten(Null(typ), got).ToTerraformValue(ctx)
			if err != nil {
				return err
			}
			members[name] = v
		}
	}
	state.Raw = tftypes.NewValue(state.Raw.Type(), members)
	return nil
}

// DropUnknowns sets unknown values to null, so that an incomplete create can be stored.
func DropUnknowns(state *tfsdk.State) {
	known, err := tftypes.Transform(state.Raw, func(_ *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		if v.IsKnown() {
			return v, nil
		}
		return tftypes.NewValue(v.Type(), nil), nil
	})
	if err == nil {
		state.Raw = known
	}
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
func field(object reflect.Value, attribute string) (field reflect.Value) {
	if index, ok := fields(object.Type())[lettersOf(attribute)]; ok {
		field = object.FieldByIndex(index)
	}
	return field
}

// lettersOf returns the letters of a name in lower case, which are the same for an attribute and its Go field.
func lettersOf(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

var fieldIndexes sync.Map // by struct type: the indexes of its fields, by lettersOf their names

func fields(typ reflect.Type) map[string][]int {
	if known, ok := fieldIndexes.Load(typ); ok {
		return known.(map[string][]int)
	}
	indexes := map[string][]int{}
	for _, f := range reflect.VisibleFields(typ) {
		if f.IsExported() {
			indexes[lettersOf(f.Name)] = f.Index
		}
	}
	fieldIndexes.Store(typ, indexes)
	return indexes
}
