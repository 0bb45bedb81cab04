package resources

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// fixedSetting is an attribute that only a create sets: a change replaces the object.
type fixedSetting struct {
	attribute  string
	version    api.Version // the only version that has it; "" if both have it
	readable   bool        // responses contain it
	constraint bool        // a requirement on the machine: removing it doesn't replace the object
}

func (f fixedSetting) forAttributes(attributes ...string) (out []fixedSetting) {
	for _, f.attribute = range attributes {
		out = append(out, f)
	}
	return out
}

// fixedSettings returns the attributes that no update sets. constraints names the requirements on the machine.
func (m members) fixedSettings(constraints ...string) (out []fixedSetting) {
	for _, s := range contract.Settings(string(m)) {
		updatable := s.V1 != nil && s.V1.In(contract.Update) || s.V2 != nil && s.V2.In(contract.Update)
		if name := diagnostics.AttributeName(s.Path); !updatable && s.Field().Type != "object" {
			out = append(out, fixedSetting{name, api.Version(s.OnlyVersion()), s.V2 != nil && s.V2.In(contract.Read), slices.Contains(constraints, name)})
		}
	}
	return out
}

func warnRecorded[M any](p *planrule.Plan[M], object string, settings []string) {
	p.Warn(settings[0], "Settings are recorded, and not sent", "The API does not return these settings of the imported %s: %s. This apply records the configured values in the state, and sends nothing.",
		object, commaList(settings))
}

// planReplacement makes changes of these attributes replace the object, and checks its new data
// centers.
func planReplacement[M any](ctx context.Context, p *planrule.Plan[M], attributes []string, before, after types.Set) {
	for _, attribute := range attributes {
		p.Replace(attribute)
	}
	if slices.Contains(attributes, "data_center_ids") {
		p.Catalog.CheckNewDataCenters(ctx, p.Check, refs("data_center_ids", before, after))
	}
}

// warnOfUnknown warns about an unknown value of an attribute whose removal replaces the object. The
// plan doesn't replace it, because the value is usually the same or changes in place. If it becomes
// null, Terraform rejects the replacement that it didn't plan.
func warnOfUnknown[M any](p *planrule.Plan[M], attribute string, planned, before attr.Value) {
	if p.CreatedHere && planned.IsUnknown() && !before.IsNull() {
		p.Warn(attribute, "Known only after the plan", "%s is unknown until the apply, and without it the object would be replaced. If it becomes null, the apply ends with \"Provider produced inconsistent final plan\" and "+
			"changes nothing of this object: plan again, which shows the replacement.", attribute)
	}
}

// fixedChanges separates changes that replace the object from changes that are only recorded. The
// state of an imported object lacks the settings that no response contains. Recording these in the
// state needs no replacement. If this provider created the object, its state is complete. carried are
// attributes from another provider's state (a moved block). Until the first update, a difference
// in these doesn't replace the object either.
func fixedChanges[M any](ctx context.Context, p *planrule.Plan[M], m members, settings []fixedSetting, carried []string) (replaced, recorded []string) {
	template := value.Text(p.Plan, "template_id")
	for _, setting := range settings {
		before, after := p.Values(ctx, setting.attribute)
		inherited := !template.IsNull() && templateMembers.defaultOf(setting.attribute) == "true" // an omission means the template's value, which may be true
		omitted := func(v attr.Value) bool {
			return noValue(v) || setting.constraint && v.String() == m.defaultOf(setting.attribute)
		}
		switch {
		case before == nil || after == nil || after.Equal(before) || omitted(before) && omitted(after) && (!inherited || after.IsNull()): // unchanged
		case omitted(before) && after.IsUnknown() && setting.version != "" && p.Version != setting.version: // the value becomes null, or OneVersion.Check rejects it
		case setting.constraint && noValue(after) && !slices.Contains(carried, setting.attribute): // a removed requirement
		case noValue(before) && !setting.readable && !p.CreatedHere, slices.Contains(carried, setting.attribute):
			recorded = append(recorded, setting.attribute)
		default:
			replaced = append(replaced, setting.attribute)
		}
	}
	return replaced, recorded
}

// noValue reports whether a value is empty, false or a minimum of 0, which are equivalent in a create.
func noValue(v attr.Value) bool {
	return value.Empty(v) || v.Equal(types.BoolValue(false)) || v.Equal(types.Float64Value(0)) || v.Equal(types.Int64Value(0))
}

func commaList(names []string) string { return strings.Join(names, ", ") }
