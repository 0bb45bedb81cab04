package mgmt

import (
	"reflect"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// requiresChange reports whether a body of a type must have at least one member.
func requiresChange(t reflect.Type, u contract.Use) bool {
	return u == contract.Update && wireTypes[t].nonEmpty
}

// checkChange rejects an update without changes. Members that only creates have don't count.
func (d *decoder) checkChange(path string, body reflect.Value, at place) {
	var names []string
	for _, m := range members(body.Type(), at) {
		switch {
		case m.row == nil:
		case !body.FieldByIndex(m.index).IsZero():
			return
		default:
			names = append(names, "'"+m.name+"'")
		}
	}
	d.addFault(path, "got no properties, want %s", strings.Join(names, " or "))
}
