// Package value converts between Terraform's values and Go's. Its Keep functions prevent perpetual diffs:
// if the server's answer has the same meaning as the state, the state's form is kept.
package value

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Number converts a number of an answer with all its digits. A text that isn't a number becomes null.
func Number(text json.Number) types.Number {
	// 512 bits are Terraform's own precision.
	n, _, err := big.ParseFloat(string(text), 10, 512, big.ToNearestEven)
	if err != nil {
		return types.NumberNull()
	}
	return types.NumberValue(n)
}

// Float converts a number of an answer. The result equals what Terraform parses from the same decimal number.
func Float(n float64) types.Float64 {
	text := strconv.FormatFloat(n, 'g', -1, 64)
	return newValue(types.Float64Type, Number(json.Number(text)).ValueBigFloat()).(types.Float64)
}

// Strings returns the known elements of a list or set of strings.
func Strings(v interface{ Elements() []attr.Value }) []string {
	out := []string{}
	for _, e := range v.Elements() {
		if s, ok := e.(types.String); ok && !s.IsUnknown() {
			out = append(out, s.ValueString())
		}
	}
	return out
}

// StringMap returns the known entries of a map of strings.
func StringMap(m types.Map) map[string]string {
	out := map[string]string{}
	for k, v := range m.Elements() {
		if s, ok := v.(types.String); ok && !s.IsUnknown() {
			out[k] = s.ValueString()
		}
	}
	return out
}

// KeepString returns got, except for "", which is equivalent to null: it then returns prior if that is empty, otherwise null.
func KeepString(prior types.String, got string) types.String {
	return keep(prior, types.StringValue(got), types.StringNull())
}

// KeepInt is KeepString for numbers: 0 is equivalent to null.
func KeepInt(prior types.Int64, got int64) types.Int64 {
	switch {
	case got != 0:
		return types.Int64Value(got)
	case prior.ValueInt64() == 0 && !prior.IsUnknown():
		return prior
	}
	return types.Int64Null()
}

// StringSet returns a set of strings. An answer may repeat one, which Terraform rejects in a set.
func StringSet(values []string) types.Set {
	return types.SetValueMust(types.StringType, elements(slices.Compact(slices.Sorted(slices.Values(values)))))
}

// KeepSet is KeepString for sets: [] is equivalent to null.
func KeepSet(prior types.Set, got []string) types.Set {
	return keep(prior, StringSet(got), types.SetNull(types.StringType))
}

// KeepList is KeepString for lists: [] is equivalent to null.
func KeepList(prior types.List, got []string) types.List {
	return keep(prior, types.ListValueMust(types.StringType, elements(got)), types.ListNull(types.StringType))
}

// KeepMap is KeepString for maps: {} is equivalent to null.
func KeepMap(prior types.Map, got map[string]string) types.Map {
	values := make(map[string]attr.Value, len(got))
	for k, v := range got {
		values[k] = types.StringValue(v)
	}
	return keep(prior, types.MapValueMust(types.StringType, values), types.MapNull(types.StringType))
}

// keep returns got unless it is empty; then prior if that is empty too, otherwise null.
func keep[V attr.Value](prior, got, null V) V {
	switch {
	case !Empty(got):
		return got
	case Empty(prior):
		return prior
	}
	return null
}

func IsSet(v attr.Value) bool { return !v.IsNull() && !v.IsUnknown() }

func Empty(v attr.Value) bool {
	switch v := v.(type) {
	case types.String:
		return !v.IsUnknown() && v.ValueString() == ""
	case interface{ Elements() []attr.Value }:
		return len(v.Elements()) == 0 && !v.(attr.Value).IsUnknown()
	case interface{ Elements() map[string]attr.Value }:
		return len(v.Elements()) == 0 && !v.(attr.Value).IsUnknown()
	}
	return v == nil || v.IsNull()
}

func elements(values []string) []attr.Value {
	out := make([]attr.Value, len(values))
	for i, v := range values {
		out[i] = types.StringValue(v)
	}
	return out
}
