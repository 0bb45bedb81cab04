package mgmt

import (
	"reflect"
	"strings"
)

// requireChange refuses an update that changes nothing: body is a wire type, of whose
// members an update takes all that are not of creates alone.
func requireChange(p phase, body any) []string {
	if p != updating {
		return nil
	}
	var names []string
	v := reflect.ValueOf(body).Elem()
	for _, m := range members(v.Type()) {
		switch {
		case m.rule.createOnly:
		case !v.FieldByIndex(m.index).IsZero():
			return nil
		default:
			names = append(names, "'"+m.name+"'")
		}
	}
	return []string{"got no properties, want " + strings.Join(names, " or ")}
}
