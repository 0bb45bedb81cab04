package kit

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// A server may store another value than the one it was sent, or answer an update with the old object.
// Terraform would report that as a bug in the provider. After a create it is a warning, because an error
// would taint the object: the state keeps the planned values, and the next refresh reads the stored ones.
// After an update it is an error, and the state has the values of the answer.

// The operations that checkAnswer follows.
const afterCreate, afterUpdate = true, false

// checkAnswer compares the state after an operation with the plan.
func (r *kindResource[M]) checkAnswer(plan tfsdk.Plan, state *tfsdk.State, id string, created bool, diags *diag.Diagnostics) {
	if diags.HasError() || plan.Raw.IsNull() || state.Raw.IsNull() {
		return
	}
	var want, got map[string]tftypes.Value
	if plan.Raw.As(&want) != nil || state.Raw.As(&got) != nil {
		return
	}
	var differences []difference
	for _, name := range slices.Sorted(maps.Keys(want)) {
		found := compare(name, want[name], got[name])
		if len(found) > 0 && created {
			got[name] = fillUnknown(want[name], got[name])
		}
		differences = append(differences, found...)
	}
	if len(differences) == 0 {
		return
	}
	texts := make([]string, len(differences))
	for i, d := range differences {
		texts[i] = d.text(r.kind.Schema)
	}
	const summary = "The deployment answered other values than it was sent"
	check, detail := diagnostics.Check{Diagnostics: diags}, fmt.Sprintf("For the %s %s, the deployment answered %s.", r.kind.Title, id, strings.Join(texts, "; "))
	if created {
		state.Raw = tftypes.NewValue(state.Raw.Type(), got)
		check.Warn(differences[0].attribute, summary, "%s The object exists. The next plan shows what the deployment stored, and the next apply sends the planned values again.", detail)
		return
	}
	check.Error(differences[0].attribute, summary, "%s It didn't apply the change, or it stored other values. The state has the answered values. Apply again; if the answer stays the same, ask the deployment's operator.", detail)
}

// difference is an attribute (a dotted path) whose value in the answer isn't the planned one.
type difference struct {
	attribute string
	want, got tftypes.Value
}

// compare returns the differences between an answer and the known values of a plan.
func compare(attribute string, want, got tftypes.Value) []difference {
	differs := []difference{{attribute, want, got}}
	switch {
	case !want.IsKnown(), want.IsNull() && got.IsNull():
		return nil
	case want.IsNull() || got.IsNull():
		return differs
	case !want.Type().Is(tftypes.Object{}):
		if !want.IsFullyKnown() || want.Equal(got) || sameNumber(want, got) {
			return nil
		}
		return differs
	}
	var planned, answered map[string]tftypes.Value
	if want.As(&planned) != nil || got.As(&answered) != nil {
		return differs
	}
	differs = nil
	for _, name := range slices.Sorted(maps.Keys(planned)) {
		differs = append(differs, compare(attribute+"."+name, planned[name], answered[name])...)
	}
	return differs
}

// sameNumber compares numbers as float64: Terraform parses 0.7 in a configuration with more precision than an answer has.
func sameNumber(want, got tftypes.Value) bool {
	var w, g big.Float
	return want.As(&w) == nil && got.As(&g) == nil && w.SetPrec(53).Cmp(g.SetPrec(53)) == 0
}

// fillUnknown returns a planned value with its unknown parts taken from the answer.
func fillUnknown(want, got tftypes.Value) tftypes.Value {
	out, err := tftypes.Transform(want, func(at *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		if v.IsKnown() {
			return v, nil
		}
		if answered, _, err := tftypes.WalkAttributePath(got, at); err == nil {
			return answered.(tftypes.Value), nil
		}
		return tftypes.NewValue(v.Type(), nil), nil
	})
	if err != nil {
		return got
	}
	return out
}

// text describes the difference, without values that may be secrets.
func (d difference) text(s schema.Schema) string {
	if d.isHidden(s) {
		return "another value of " + d.attribute + " than it was sent"
	}
	return fmt.Sprintf("%s = %s instead of %s", d.attribute, formatValue(d.got), formatValue(d.want))
}

// isHidden reports whether a message must not show the values: secrets, and readmes, which are long.
func (d difference) isHidden(s schema.Schema) bool {
	name := d.attribute[strings.LastIndex(d.attribute, ".")+1:]
	a, diags := s.AttributeAtPath(context.Background(), diagnostics.Path(d.attribute))
	return diags.HasError() || a.IsSensitive() || d.want.Type().Is(tftypes.Map{}) || redact.IsSecret(name) || name == "readme"
}

// maxShown bounds a value in a message, in bytes.
const maxShown = 200

func formatValue(v tftypes.Value) string {
	text := "another value"
	var number big.Float
	var elements []tftypes.Value
	switch {
	case v.IsNull():
		return "nothing"
	case v.Type().Is(tftypes.String):
		var s string
		_ = v.As(&s) // can't fail: a string
		text = fmt.Sprintf("%q", s)
	case v.Type().Is(tftypes.Bool):
		var b bool
		_ = v.As(&b)
		text = fmt.Sprint(b)
	case v.Type().Is(tftypes.Number):
		_ = v.As(&number)
		text = number.Text('g', -1)
	case (v.Type().Is(tftypes.List{}) || v.Type().Is(tftypes.Set{})) && v.As(&elements) == nil:
		texts := make([]string, len(elements))
		for i, e := range elements {
			texts[i] = formatValue(e)
		}
		slices.Sort(texts)
		text = "[" + strings.Join(texts, ", ") + "]"
	}
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}
