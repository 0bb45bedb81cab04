package api

import "context"

// Collection is what every kind of managed object offers. T is the neutral
// type of the kind. Errors that came from the API are *Error; IsNotFound
// tells absence.
type Collection[T any] interface {
	List(ctx context.Context) ([]T, error)
	Get(ctx context.Context, id string) (T, error)
	Create(ctx context.Context, want T) (T, error)
	// Update sends what differs between have and want; have carries the id.
	// When nothing differs it only reads.
	Update(ctx context.Context, have, want T) (T, error)
	// Delete of an object that is already gone succeeds.
	Delete(ctx context.Context, id string) error
}
