package main

import "testing"

// A test inside the package puts the program into the tests' own binary, too:
// without it, a cached result would outlive a change of the program, which the
// other tests build and run by themselves.
func TestVersion(t *testing.T) {
	if version == "" {
		t.Error("the program has no version")
	}
}
