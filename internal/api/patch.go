package api

import (
	"bytes"
	"encoding/json"
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

// changed returns the members of want that differ from have's. What want does
// not have is left alone: wire structs for an update hold a clearing value
// wherever something is to be cleared.
func changed(have, want any) (patch, error) {
	before, err := members(have)
	if err != nil {
		return nil, err
	}
	after, err := members(want)
	if err != nil {
		return nil, err
	}
	for name, value := range after {
		if old, ok := before[name]; ok && bytes.Equal(old, value) {
			delete(after, name)
		}
	}
	return after, nil
}

// filled points at v, or is nil where v is empty and empty is not said.
func filled[V comparable](v V, sayEmpty bool) *V {
	var empty V
	if v == empty && !sayEmpty {
		return nil
	}
	return &v
}

// filledList is filled for a list, which is then never null.
func filledList(v []string, sayEmpty bool) *[]string {
	if len(v) == 0 {
		if !sayEmpty {
			return nil
		}
		v = []string{}
	}
	return &v
}

// filledMap is filled for a map, which is then never null.
func filledMap(v map[string]string, sayEmpty bool) *map[string]string {
	if len(v) == 0 {
		if !sayEmpty {
			return nil
		}
		v = map[string]string{}
	}
	return &v
}

// value is what p points at, or the zero value.
func value[V any](p *V) V {
	if p == nil {
		var zero V
		return zero
	}
	return *p
}
