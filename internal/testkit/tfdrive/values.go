package tfdrive

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// value converts Go data to a Terraform value.
func (d *Provider) value(ty tftypes.Type, v any) tftypes.Value {
	d.t.Helper()
	switch f, ok := v.(float64); {
	case v == nil:
		return tftypes.NewValue(ty, nil)
	case v == Unknown:
		return tftypes.NewValue(ty, tftypes.UnknownValue)
	case ok: // Terraform keeps more digits than a float64
		v, _, _ = big.ParseFloat(strconv.FormatFloat(f, 'g', -1, 64), 10, 512, big.ToNearestEven)
	}
	switch ty := ty.(type) {
	case tftypes.Object:
		configured := v.(map[string]any)
		members := map[string]tftypes.Value{}
		for name, member := range ty.AttributeTypes {
			members[name] = d.value(member, configured[name])
		}
		for name := range configured {
			if _, ok := members[name]; !ok {
				d.t.Fatalf("no such attribute: %s", name)
			}
		}
		return tftypes.NewValue(ty, members)
	case tftypes.Map:
		members := map[string]tftypes.Value{}
		for name, member := range v.(map[string]any) {
			members[name] = d.value(ty.ElementType, member)
		}
		return tftypes.NewValue(ty, members)
	case tftypes.List:
		return tftypes.NewValue(ty, d.elements(ty.ElementType, v))
	case tftypes.Set:
		return tftypes.NewValue(ty, d.elements(ty.ElementType, v))
	}
	return tftypes.NewValue(ty, v)
}

func (d *Provider) elements(ty tftypes.Type, v any) []tftypes.Value {
	out := []tftypes.Value{}
	for _, e := range v.([]any) {
		out = append(out, d.value(ty, e))
	}
	return out
}

// plain converts a Terraform value to Go data.
func plain(v tftypes.Value) any {
	switch {
	case v.IsNull():
		return nil
	case !v.IsKnown():
		return Unknown
	}
	switch {
	case v.Type().Is(tftypes.String):
		var s string
		_ = v.As(&s)
		return s
	case v.Type().Is(tftypes.Bool):
		var b bool
		_ = v.As(&b)
		return b
	case v.Type().Is(tftypes.Number):
		var n big.Float
		_ = v.As(&n)
		f, _ := n.Float64()
		return f
	case v.Type().Is(tftypes.Object{}), v.Type().Is(tftypes.Map{}):
		var members map[string]tftypes.Value
		_ = v.As(&members)
		out := map[string]any{}
		for name, member := range members {
			out[name] = plain(member)
		}
		return out
	}
	var elements []tftypes.Value
	_ = v.As(&elements)
	out := []any{}
	for _, e := range elements {
		out = append(out, plain(e))
	}
	if v.Type().Is(tftypes.Set{}) {
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return out
}

// propose merges configuration and prior state: a computed value that isn't configured stays.
func propose(attributes []*tfprotov6.SchemaAttribute, prior, config tftypes.Value) tftypes.Value {
	if config.IsNull() || !config.IsKnown() {
		return config
	}
	var before, configured map[string]tftypes.Value
	_ = config.As(&configured)
	if !prior.IsNull() && prior.IsKnown() {
		_ = prior.As(&before)
	}
	out := map[string]tftypes.Value{}
	for _, a := range attributes {
		v := configured[a.Name]
		old, existed := before[a.Name]
		switch {
		case a.WriteOnly:
			v = tftypes.NewValue(v.Type(), nil)
		case v.IsNull() && a.Computed && existed:
			v = old
		case a.NestedType != nil && a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeSingle && existed:
			v = propose(a.NestedType.Attributes, old, v)
		}
		out[a.Name] = v
	}
	return tftypes.NewValue(config.Type(), out)
}

// inconsistent describes where an applied value differs from the planned one.
func inconsistent(at string, planned, got any) string {
	if planned == Unknown {
		return ""
	}
	want, ok := planned.(map[string]any)
	if !ok {
		if !reflect.DeepEqual(planned, got) {
			return fmt.Sprintf("%s was planned as %v and came out as %v", at, planned, got)
		}
		return ""
	}
	have, _ := got.(map[string]any)
	if have == nil {
		return fmt.Sprintf("%s was planned as %v and came out as %v", at, planned, got)
	}
	for name := range want {
		if diff := inconsistent(at+"."+name, want[name], have[name]); diff != "" {
			return diff
		}
	}
	return ""
}

func (d *Provider) pack(v tftypes.Value) *tfprotov6.DynamicValue {
	d.t.Helper()
	packed, err := tfprotov6.NewDynamicValue(v.Type(), v)
	d.must(err)
	return &packed
}

func (d *Provider) unpack(v *tfprotov6.DynamicValue, ty tftypes.Type) tftypes.Value {
	d.t.Helper()
	if v == nil {
		return tftypes.Value{}
	}
	out, err := v.Unmarshal(ty)
	d.must(err)
	return out
}
