package api

import (
	"context"
	"fmt"

	"golang.org/x/sync/singleflight"
)

// share calls ask once for all concurrent callers. If a caller is interrupted, the others still
// get the result.
func share[V any](ctx context.Context, flight *singleflight.Group, key, doing string, ask func(context.Context) (V, error)) (V, error) {
	asked := flight.DoChan(key, func() (any, error) { return ask(context.WithoutCancel(ctx)) })
	select {
	case <-ctx.Done():
		var none V
		return none, fmt.Errorf("%s: %w", doing, whyGivenUp(ctx, ctx.Err()))
	case answer := <-asked:
		return answer.Val.(V), answer.Err
	}
}
