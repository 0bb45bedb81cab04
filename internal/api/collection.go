package api

import "context"

// Collection is what every kind of managed object offers. T is the neutral
// type of the kind. Errors that came from the API are *Error; IsNotFound
// tells absence.
//
// With Settings.SharedReads, List and Get may be answered from what this client
// read before and has not changed since.
type Collection[T any] interface {
	List(ctx context.Context) ([]T, error)
	// Named is List by ids and names.
	Named(ctx context.Context) ([]Named, error)
	Get(ctx context.Context, id string) (T, error)
	// GetFresh is Get past what was read before: another process may have written.
	GetFresh(ctx context.Context, id string) (T, error)
	// Create accounts for what it made: a lost answer is settled, or is an
	// *UnresolvedCreateError.
	Create(ctx context.Context, want T) (T, error)
	// ExistingMatches are the objects that a create of want could be taken for.
	ExistingMatches(ctx context.Context, want T) []ExistingMatch
	// Update sends what differs between have and want; have carries the id.
	// When nothing differs it only reads.
	Update(ctx context.Context, have, want T) (T, error)
	// Delete of an object that is already gone succeeds.
	Delete(ctx context.Context, id string) error

	probe() probe
}
