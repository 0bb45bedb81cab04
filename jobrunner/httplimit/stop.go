package httplimit

import (
	"context"
	"errors"
)

// ErrStopping is the cancellation cause of requests' contexts when the server
// stops.
var ErrStopping = errors.New("the deployment is stopping: try again when it is running")

// Stopping reports whether a request's context was cancelled because the server
// stops, and not because its client disconnected.
func Stopping(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrStopping) }

// Answering returns the context for answering a request. If the server's stop cancelled the request,
// this context isn't cancelled, so that the answer can read the final state.
func Answering(ctx context.Context) context.Context {
	if Stopping(ctx) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}
