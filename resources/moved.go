package resources

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// A moved block takes over an object from another provider. For each source, the tables in
// moved_*.go list the values that are read from its state: only those that no answer of the API
// has. The next read fetches the rest, as after an import, so that errors in the other state
// don't matter. Settings that only API v1 has are ignored: a configuration for API v2 couldn't
// express them.
//
// Templates and network volumes have no table: the API returns all their values.

// text returns null for "".
func text(s string) types.String { return value.KeepString(types.StringNull(), s) }

// texts returns null for an empty list.
func texts(list []string) types.Set { return value.KeepSet(types.SetNull(types.StringType), list) }

// onlyTrue returns null for false, the default of every setting that no answer has.
func onlyTrue(b bool) types.Bool {
	if !b {
		return types.BoolNull()
	}
	return types.BoolValue(true)
}

// nonNullNames returns the names of the attributes that have a value.
func nonNullNames(attributes map[string]attr.Value) (names []string) {
	for name, v := range attributes {
		if !noValue(v) {
			names = append(names, name)
		}
	}
	return sorted(names)
}
