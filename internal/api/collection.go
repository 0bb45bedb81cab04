package api

import "context"

// Collection has the operations of a kind of managed object. T is the kind's neutral type.
// Errors of the API are *Error. IsNotFound reports whether an error means that the object
// doesn't exist.
//
// With Settings.SharedReads, List and Get may return what this client has read before, unless
// it has written since.
type Collection[T any] interface {
	List(ctx context.Context) ([]T, error)
	// Named is List, with only ids and names.
	Named(ctx context.Context) ([]Named, error)
	Get(ctx context.Context, id string) (T, error)
	// GetFresh is Get without the cache, because another process may have written.
	GetFresh(ctx context.Context, id string) (T, error)
	// Create sends the create and finds out what it made. If the answer is lost and the outcome
	// unclear, the error is an *UnresolvedCreateError.
	Create(ctx context.Context, want T) (T, error)
	// ExistingMatches returns existing objects that a create of want could be confused with.
	ExistingMatches(ctx context.Context, want T) []ExistingMatch
	// Update sends the differences between have and want. have carries the id. Without
	// differences it only reads.
	Update(ctx context.Context, have, want T) (T, error)
	// Delete succeeds if the object is already gone.
	Delete(ctx context.Context, id string) error

	probe() probe
}
