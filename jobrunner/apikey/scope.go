package apikey

import (
	"fmt"
	"time"
)

// Scope is what a key may do at an API.
type Scope string

// The scopes, each with what those before it allow.
const (
	None Scope = "none"
	Read Scope = "read" // what changes nothing
	All  Scope = "all"
)

// allows reports whether it includes another.
func (s Scope) allows(needed Scope) bool {
	switch s {
	case All:
		return true
	case Read:
		return needed != All
	}
	return needed == None
}

// check refuses what is no scope.
func (s Scope) check() error {
	switch s {
	case None, Read, All:
		return nil
	}
	return fmt.Errorf("invalid scope %q: expected one of none, read, all", string(s))
}

// ExpiredError says that the time of a key is over: 401.
type ExpiredError struct{ At time.Time }

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the API key expired at %s: ask for a new one", e.At.UTC().Format(time.RFC3339))
}

// Is makes it an ErrUnknown.
func (e *ExpiredError) Is(target error) bool { return target == ErrUnknown }
