package api

import (
	"errors"
	"slices"
)

// Whether an object is the one that a create asked for: it equals it in
// everything that the version returns. What a version never returns, and what
// the caller left to the server, is not compared; nor is the order of lists
// where it means nothing.

// same compares what an update could change by asking what an update would
// send, and what is fixed at create by sameFixed.
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

// agrees tells whether the server's value is the one asked for, or none was.
func agrees(got, want *string) bool {
	return want == nil || got == nil || *got == *want
}

// inOrderOf is have where want has the same elements, else want.
func inOrderOf(have, want []string) []string {
	if len(have) == len(want) && slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))) {
		return have
	}
	return want
}
