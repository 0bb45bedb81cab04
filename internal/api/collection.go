package api

import (
	"context"
	"fmt"
)

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

// unsupported implements Collection for a kind that the version lacks. A plan rejects a create;
// reads, lists and imports get this error.
type unsupported[T any] struct{ kind string }

func (u unsupported[T]) err() error {
	return fmt.Errorf("management API v1 has no %ss: set api_version or GPUCLOUD_API_VERSION to v2", u.kind)
}

func (u unsupported[T]) List(context.Context) ([]T, error)            { return nil, u.err() }
func (u unsupported[T]) Named(context.Context) ([]Named, error)       { return nil, u.err() }
func (u unsupported[T]) Get(context.Context, string) (o T, err error) { return o, u.err() }
func (u unsupported[T]) GetFresh(context.Context, string) (o T, err error) {
	return o, u.err()
}
func (u unsupported[T]) Create(context.Context, T) (o T, err error)         { return o, u.err() }
func (u unsupported[T]) ExistingMatches(context.Context, T) []ExistingMatch { return nil }
func (u unsupported[T]) Update(context.Context, T, T) (o T, err error)      { return o, u.err() }
func (u unsupported[T]) Delete(context.Context, string) error               { return u.err() }
func (u unsupported[T]) probe() probe                                       { return probe{} }
