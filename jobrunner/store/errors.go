package store

import (
	"errors"
	"fmt"
)

// ErrNotFound means that an object doesn't exist. The error that wraps it names the kind and
// the id.
var ErrNotFound = errors.New("not found")

// Refusal rejects a request that breaks a rule. Its text is for the caller of the API, and
// has no secrets.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Conflict rejects a request because of another object.
type Conflict string

func (c Conflict) Error() string { return string(c) }

func refusef(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

func notFound(k kind, id string) error { return fmt.Errorf("%s %q %w", k.label, id, ErrNotFound) }
