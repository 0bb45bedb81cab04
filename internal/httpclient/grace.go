package httpclient

import (
	"context"
	"time"
)

// answerAfterInterrupt limits the wait for the answer to a write in flight after its caller was
// interrupted.
const answerAfterInterrupt = 4 * time.Second

// Grace returns a context that ends a given time after ctx does.
func Grace(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if Sleep(longer, wait) == nil {
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// Sleep waits, unless the context ends first.
func Sleep(ctx context.Context, wait time.Duration) error {
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
