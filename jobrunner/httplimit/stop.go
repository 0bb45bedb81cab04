package httplimit

import (
	"context"
	"errors"
)

// ErrStopping is the cause of the end of requests' contexts when the server
// stops.
var ErrStopping = errors.New("the deployment is stopping: try again when it runs")

// Stopping tells that a request's context has ended because the server stops,
// and not because its client has gone.
func Stopping(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrStopping) }

// Answering is the context in which a request is answered: it outlives the
// server's stop, for the last look.
func Answering(ctx context.Context) context.Context {
	if Stopping(ctx) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}
