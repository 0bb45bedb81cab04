package api

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// patch is the body of an update: the members that change.
type patch map[string]json.RawMessage

// members encodes a wire struct and returns its members.
func members(wire any) (patch, error) {
	encoded, err := json.Marshal(wire)
	if err != nil {
		return nil, err
	}
	var p patch
	err = json.Unmarshal(encoded, &p)
	return p, err
}

// changedMembers returns the body of an update from have to want: each member of want that
// differs, and the clearing value of each member that only have sets. If have is nil, the body
// contains all members of want and clears all others.
func changedMembers[W any](cleared map[string]string, have *W, want W) (patch, error) {
	before, err := members(have)
	if err != nil {
		return nil, err
	}
	after, err := members(want)
	if err != nil {
		return nil, err
	}
	for name, empty := range cleared {
		_, wasSet := before[name]
		if _, isSet := after[name]; !isSet && (wasSet || have == nil) {
			after[name] = json.RawMessage(empty)
		}
	}
	return after.without(before), nil
}

// without removes the members that are equal in before.
func (p patch) without(before patch) patch {
	maps.DeleteFunc(p, func(name string, value json.RawMessage) bool {
		old, ok := before[name]
		return ok && bytes.Equal(old, value)
	})
	return p
}

func clearingValues(version contract.API, resource string) map[string]string {
	return contract.Body{API: version, Resource: resource, Use: contract.Update}.Clearing("")
}

// deref returns the value that p points at, or the zero value.
func deref[V any](p *V) V {
	if p == nil {
		var zero V
		return zero
	}
	return *p
}

// changedV1 compares two objects in their wire form. If v1 can't express have, every member of
// want counts as changed.
func changedV1[T, W any](resource string, toWire func(T) (W, error), have, want T) (p patch, after W, err error) {
	if after, err = toWire(want); err != nil {
		return nil, after, err
	}
	var before *W
	if w, err := toWire(have); err == nil {
		before = &w
	}
	p, err = changedMembers(clearingValues(contract.V1, resource), before, after)
	return p, after, err
}

// completeGroups adds members to an update: the members of a group have a joint meaning and are
// sent together.
func completeGroups(p patch, want any, groups [][]string) error {
	all, err := members(want)
	if err != nil {
		return err
	}
	for _, group := range groups {
		for _, name := range group {
			if _, ok := p[name]; !ok {
				continue
			}
			for _, other := range group {
				if value, ok := all[other]; ok {
					p[other] = value
				}
			}
		}
	}
	return nil
}
