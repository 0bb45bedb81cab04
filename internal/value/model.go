package value

import (
	"context"
	"reflect"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Load sets a resource's model from a state. A configuration or plan converts to a state. Load
// replaces the framework's Get, which compiles a regular expression for each field.
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
	m, members := reflect.ValueOf(model).Elem(), object.(types.Object).Attributes()
	for name, index := range attributes(m.Type()) {
		m.FieldByIndex(index).Set(reflect.ValueOf(members[name]))
	}
	return diags
}

// Store sets a state from a resource's model, like the framework's Set.
func Store(ctx context.Context, to *tfsdk.State, model any) diag.Diagnostics {
	m, members := reflect.ValueOf(model).Elem(), map[string]attr.Value{}
	for name, index := range attributes(m.Type()) {
		members[name] = m.FieldByIndex(index).Interface().(attr.Value)
	}
	object, diags := types.ObjectValue(to.Schema.Type().(attr.TypeWithAttributeTypes).AttributeTypes(), members)
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

// Attribute returns a model's value of an attribute, or nil if the model lacks it.
func Attribute(model any, name string) attr.Value {
	m := reflect.ValueOf(model).Elem()
	if index, ok := attributes(m.Type())[name]; ok {
		return m.FieldByIndex(index).Interface().(attr.Value)
	}
	return nil
}

// Text returns the field of an attribute that is a string. The model must have it.
func Text(model any, name string) *types.String {
	m := reflect.ValueOf(model).Elem()
	return m.FieldByIndex(attributes(m.Type())[name]).Addr().Interface().(*types.String)
}

var models sync.Map // the fields' indexes of each type of model, by the attribute's name

func attributes(model reflect.Type) map[string][]int {
	if known, ok := models.Load(model); ok {
		return known.(map[string][]int)
	}
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(model) {
		if name := f.Tag.Get("tfsdk"); name != "" && name != "-" {
			fields[name] = f.Index
		}
	}
	models.Store(model, fields)
	return fields
}
