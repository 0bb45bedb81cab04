package mgmt

import (
	"reflect"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// requireChange rejects an update without changes. body is a wire type; its members count, except
// those that only creates have.
func requireChange(u contract.Use, body any) []string {
	if u != contract.Update {
		return nil
	}
	var names []string
	v := reflect.ValueOf(body).Elem()
	for _, m := range members(v.Type(), placeOf(v.Type(), u)) {
		switch {
		case m.row == nil:
		case !v.FieldByIndex(m.index).IsZero():
			return nil
		default:
			names = append(names, "'"+m.name+"'")
		}
	}
	return []string{"got no properties, want " + strings.Join(names, " or ")}
}
