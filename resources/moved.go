package resources

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// A moved block brings over an object that another provider manages. The tables in
// moved_*.go say, for each source, what of its state is taken over: only what no answer
// of the API tells, so that the next read finds the rest, as after an import, and what
// the other provider has recorded wrongly does not count. What API v1 alone can set is not
// taken over: a configuration for API v2 could never say the same.
//
// Templates and network volumes have no table: the API returns all of them.

// text is null for "".
func text(s string) types.String { return value.KeepString(types.StringNull(), s) }

// texts is null for none.
func texts(list []string) types.Set { return value.KeepSet(types.SetNull(types.StringType), list) }

// onlyTrue is null for false, which is the default of every setting that no answer tells.
func onlyTrue(b bool) types.Bool {
	if !b {
		return types.BoolNull()
	}
	return types.BoolValue(true)
}

// carried are the names of attributes that have a value.
func carried(attributes map[string]attr.Value) (names []string) {
	for name, v := range attributes {
		if !noValue(v) {
			names = append(names, name)
		}
	}
	return sorted(names)
}
