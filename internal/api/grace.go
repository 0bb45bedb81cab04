package api

import (
	"context"
	"time"
)

// grace is a context that outlives ctx by wait. What was sent before the
// caller was interrupted gets its answer there, and is not lost.
func grace(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if pause(longer, wait) == nil {
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil || wait <= 0 {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
