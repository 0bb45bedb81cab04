package api

import (
	"errors"
	"slices"
)

// This file decides whether an object is the one that a create asked for: everything that the
// version returns must be equal. It ignores members that the version never returns or that the
// caller left to the server, and the order of lists if the order has no meaning.

// same builds an update to compare the members that an update can change, and uses sameFixed
// for the others.
func (r *restCollection[T]) same(got, want T) bool {
	if r.name(got) != r.name(want) || r.sameFixed != nil && !r.sameFixed(got, want) {
		return false
	}
	if r.normalize != nil {
		got, want = r.normalize(got, want)
	}
	changes, err := r.update(got, want)
	return errors.Is(err, errNoUpdate) || err == nil && len(changes) == 0
}

// errNoUpdate marks a kind that can't be changed.
var errNoUpdate = errors.New("this kind of object can't be changed: create a new one, and delete the old one")

// agrees reports whether the server's value is the requested one, or none was requested.
func agrees(got, want *string) bool {
	return want == nil || got == nil || *got == *want
}

// inOrderOf returns have if want has the same elements, else want.
func inOrderOf(have, want []string) []string {
	if len(have) == len(want) && slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))) {
		return have
	}
	return want
}
