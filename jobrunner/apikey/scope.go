package apikey

import (
	"fmt"
	"time"
)

// Scope is what a key may do at an API.
type Scope string

// The scopes. Each includes the ones before it.
const (
	None Scope = "none"
	Read Scope = "read" // operations that change nothing
	All  Scope = "all"
)

// allows reports whether the scope includes another one.
func (s Scope) allows(needed Scope) bool {
	switch s {
	case All:
		return true
	case Read:
		return needed != All
	}
	return needed == None
}

// check rejects invalid scopes.
func (s Scope) check() error {
	switch s {
	case None, Read, All:
		return nil
	}
	return fmt.Errorf("invalid scope %q: expected one of none, read, all", string(s))
}

// ExpiredError means that a key has expired. The answer is 401.
type ExpiredError struct{ At time.Time }

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the API key expired at %s: ask for a new one", e.At.UTC().Format(time.RFC3339))
}

// Is reports that an ExpiredError is an ErrUnknown.
func (e *ExpiredError) Is(target error) bool { return target == ErrUnknown }
