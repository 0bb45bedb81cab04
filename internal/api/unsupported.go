package api

import (
	"context"
	"fmt"
)

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
