package resources

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

// fixedSetting is an attribute that only a create sets: a change of it replaces the
// object.
type fixedSetting struct {
	attribute  string
	readable   bool // from answers
	constraint bool // of the machine: without it, what the object has is fine
}

// Text of a warning about settings that are recorded; it names the object and them.
const (
	recordedSummary = "Settings are recorded, and not sent"
	recordedDetail  = "The API does not tell whether the imported %s has these settings: %s. This apply records what the configuration says of them, and sends nothing of it."
)

// fixedChanges tells apart the changes that replace the object, and those that are only
// recorded: of an imported object the state lacks what no answer tells, and that is not
// a reason to replace it. What was created by this provider has what its state says.
// Carried are the attributes that the state has from another provider's (a moved block),
// until the first update: its word is not a reason either.
func fixedChanges[M any](ctx context.Context, p *planrule.Plan[M], attributes []fixedSetting, created bool, carried []string) (replaced, recorded []string) {
	for _, fixed := range attributes {
		before, after := p.Values(ctx, fixed.attribute)
		switch {
		case before == nil || after == nil || after.Equal(before) || noValue(before) && noValue(after):
		case fixed.constraint && noValue(after) && !slices.Contains(carried, fixed.attribute):
		case noValue(before) && !fixed.readable && !created, slices.Contains(carried, fixed.attribute):
			recorded = append(recorded, fixed.attribute)
		default:
			replaced = append(replaced, fixed.attribute)
		}
	}
	return replaced, recorded
}

// noValue tells null, "", [], {} and false, which mean the same in a setting of a create.
func noValue(v attr.Value) bool {
	switch v := v.(type) {
	case types.Bool:
		return !v.IsUnknown() && !v.ValueBool()
	case types.String:
		return !v.IsUnknown() && v.ValueString() == ""
	case types.List:
		return !v.IsUnknown() && len(v.Elements()) == 0
	case types.Set:
		return !v.IsUnknown() && len(v.Elements()) == 0
	case types.Map:
		return !v.IsUnknown() && len(v.Elements()) == 0
	}
	return v.IsNull()
}

func list(names []string) string { return strings.Join(names, ", ") }
