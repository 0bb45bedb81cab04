package value

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Expand sets the fields of an API object from a model's fields of the same names. A null or
// unknown value leaves its field empty. Sets are sorted.
func Expand(model, object any) {
	m, o := reflect.ValueOf(model).Elem(), reflect.ValueOf(object).Elem()
	for i := range o.NumField() {
		if v, ok := member(m, o.Type().Field(i).Name); ok {
			expand(v.Interface().(attr.Value), o.Field(i))
		}
	}
}

// Flatten sets a model's fields from an API object's fields of the same names, except the given ones. If an
// object's field is a nil pointer, because the version doesn't return it, the model keeps its value; a nil
// pointer to a struct becomes null. Null and an empty text, set or map are equivalent: neither replaces the other.
func Flatten(object, model any, except ...string) {
	o, m := reflect.ValueOf(object), reflect.ValueOf(model).Elem()
	for i := range o.NumField() {
		name := o.Type().Field(i).Name
		if v, ok := member(m, name); ok && !slices.Contains(except, name) {
			v.Set(reflect.ValueOf(flatten(v.Interface().(attr.Value), o.Field(i))))
		}
	}
}

// As decodes a nested attribute. If it is null or unknown, As returns nil. The fields of T have
// the names of the attributes in Go's spelling.
func As[T any](o types.Object) (out *T) {
	expand(o, reflect.ValueOf(&out).Elem())
	return out
}

// Of encodes v as the value of an attribute. A nil v becomes null.
func Of(a schema.Attribute, v any) attr.Value {
	return flatten(Null(a.GetType()), reflect.ValueOf(v))
}

// Object encodes v as the value of a nested attribute. A nil v becomes null.
func Object[T any](a schema.Attribute, v *T) types.Object { return Of(a, v).(types.Object) }

func Null(typ attr.Type) attr.Value { return newValue(typ, nil) }

func Unknown(typ attr.Type) attr.Value { return newValue(typ, tftypes.UnknownValue) }

func newValue(typ attr.Type, value any) attr.Value {
	ctx := context.Background()
	v, _ := typ.ValueFromTerraform(ctx, tftypes.NewValue(typ.TerraformType(ctx), value)) // can't fail: null and unknown are valid for each type
	return v
}

func member(model reflect.Value, name string) (field reflect.Value, ok bool) {
	if field = model.FieldByName(name); field.IsValid() {
		_, ok = field.Interface().(attr.Value)
	}
	return field, ok
}

func expand(v attr.Value, dst reflect.Value) {
	if _, ok := dst.Interface().(attr.Value); ok {
		dst.Set(reflect.ValueOf(v))
		return
	}
	if v.IsNull() || v.IsUnknown() {
		return
	}
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	switch v := v.(type) {
	case types.String:
		dst.SetString(v.ValueString())
	case types.Bool:
		dst.SetBool(v.ValueBool())
	case types.Int64:
		dst.SetInt(v.ValueInt64())
	case types.Float64:
		dst.SetFloat(v.ValueFloat64())
	case types.Set:
		dst.Set(reflect.ValueOf(slices.Sorted(slices.Values(Strings(v)))))
	case types.Map:
		dst.Set(reflect.ValueOf(StringMap(v)))
	case types.List:
		for _, e := range v.Elements() {
			if !e.IsNull() && !e.IsUnknown() {
				dst.Set(reflect.Append(dst, reflect.Zero(dst.Type().Elem())))
				expand(e, dst.Index(dst.Len()-1))
			}
		}
	case types.Object:
		for name, v := range v.Attributes() {
			if f := field(dst, name); f.IsValid() {
				expand(v, f)
			}
		}
	}
}

// flatten returns the value of a field. prior is the model's value, which is null in nested attributes.
func flatten(prior attr.Value, got reflect.Value) attr.Value {
	ctx := context.Background()
	if v, ok := got.Interface().(attr.Value); ok && !v.IsNull() {
		return v
	} else if ok {
		return prior
	}
	if got.Kind() == reflect.Pointer && got.IsNil() {
		if _, isObject := prior.(types.Object); isObject || prior.IsUnknown() {
			return Null(prior.Type(ctx))
		}
		return prior
	}
	got = reflect.Indirect(got)
	switch prior := prior.(type) {
	case types.String:
		if got.Kind() == reflect.Slice { // JSON
			return KeepString(prior, string(got.Bytes()))
		}
		return KeepString(prior, got.String())
	case types.Number:
		return Number(json.Number(got.String()))
	case types.Bool:
		return types.BoolValue(got.Bool())
	case types.Int64:
		return types.Int64Value(got.Int())
	case types.Float64:
		return Float(got.Float())
	case types.Set:
		return KeepSet(prior, got.Interface().([]string))
	case types.Map:
		return flattenMap(prior, got)
	case types.List:
		if got.IsNil() {
			return Null(prior.Type(ctx))
		}
		if texts, ok := got.Interface().([]string); ok {
			return types.ListValueMust(types.StringType, elements(texts))
		}
		elements := make([]attr.Value, got.Len())
		for i := range elements {
			elements[i] = flatten(Null(prior.ElementType(ctx)), got.Index(i))
		}
		return types.ListValueMust(prior.ElementType(ctx), elements)
	case types.Object:
		members := map[string]attr.Value{}
		for name, typ := range prior.AttributeTypes(ctx) {
			members[name] = flatten(Null(typ), field(got, name))
		}
		return types.ObjectValueMust(prior.AttributeTypes(ctx), members)
	}
	panic(fmt.Sprintf("can't convert a %s to a %T", got.Type(), prior)) // a programming error, which every test finds
}

func flattenMap(prior types.Map, got reflect.Value) attr.Value {
	if texts, ok := got.Interface().(map[string]string); ok {
		return KeepMap(prior, texts)
	}
	elementType, elements := prior.ElementType(context.Background()), map[string]attr.Value{}
	for key, v := range got.Seq2() {
		elements[key.String()] = flatten(Null(elementType), v)
	}
	return types.MapValueMust(elementType, elements)
}
