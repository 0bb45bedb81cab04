package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// patch is the body of an update: the members that change.
type patch map[string]json.RawMessage

// members splits the JSON form of a wire struct.
func members(wire any) (patch, error) {
	encoded, err := json.Marshal(wire)
	if err != nil {
		return nil, err
	}
	var p patch
	return p, json.Unmarshal(encoded, &p)
}

// changed returns the members of want that differ from have's, and clears those
// that only have has, by the value of their clear tag. A nil have differs from
// want in everything, and is cleared of everything that want lacks.
func changed[W any](have *W, want W) (patch, error) {
	before, err := members(have)
	if err != nil {
		return nil, err
	}
	after, err := members(want)
	if err != nil {
		return nil, err
	}
	for name, empty := range clears(reflect.TypeFor[W]()) {
		_, had := before[name]
		if _, has := after[name]; !has && (had || have == nil) {
			after[name] = empty
		}
	}
	return after.without(before), nil
}

// without leaves out the members that are as before.
func (p patch) without(before patch) patch {
	maps.DeleteFunc(p, func(name string, value json.RawMessage) bool {
		old, ok := before[name]
		return ok && bytes.Equal(old, value)
	})
	return p
}

// clears are the values that clear the members of a wire struct.
func clears(wire reflect.Type) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, field := range reflect.VisibleFields(wire) {
		if empty, ok := field.Tag.Lookup("clear"); ok {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			out[name] = json.RawMessage(empty)
		}
	}
	return out
}

// deref is what p points at, or the zero value.
func deref[V any](p *V) V {
	if p == nil {
		var zero V
		return zero
	}
	return *p
}
