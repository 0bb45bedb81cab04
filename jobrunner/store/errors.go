package store

import (
	"errors"
	"fmt"
)

// ErrNotFound says that there is no such object. The error that wraps it names
// the kind and the id.
var ErrNotFound = errors.New("not found")

// Refusal is the breach of a rule. Its text is for the caller of the API: it
// says what is refused and why, and holds no secret.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Conflict is a refusal because of another object.
type Conflict string

func (c Conflict) Error() string { return string(c) }

func refusef(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

func notFound(k kind, id string) error { return fmt.Errorf("%s %q %w", k.label, id, ErrNotFound) }
