package httpclient_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// stall answers too late.
func stall(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestBackoffDoublesWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{answers: []http.HandlerFunc{answer(500, ``)}}

		read(t.Context(), newClient(server))
		seen := server.at
		for i, full := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			if pause := seen[i+1].Sub(seen[i]); pause < full/2 || pause > full {
				t.Errorf("pause %d was %s, want %s to %s", i+1, pause, full/2, full)
			}
		}
	})
}

func TestContextCapsWaits(t *testing.T) {
	t.Run("a wait beyond the deadline is not begun", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			server := &script{answers: []http.HandlerFunc{answer(429, `{"title":"Too Many","status":429,"detail":"slow down"}`, "Retry-After", "30")}}

			began := time.Now()
			err := read(ctx, newClient(server))
			if time.Since(began) != 0 || len(server.at) != 1 {
				t.Errorf("took %s and %d requests", time.Since(began), len(server.at))
			}
			failure, ok := errors.AsType[*httpclient.Error](err)
			must.Hold(t, ok && failure.Status == 429 && failure.RetryAfter == 30*time.Second, err)
		})
	})
	t.Run("a wait is interrupted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			server := &script{answers: []http.HandlerFunc{answer(429, ``, "Retry-After", "30")}}

			time.AfterFunc(5*time.Second, cancel)
			began := time.Now()
			err := read(ctx, newClient(server))
			if !errors.Is(err, context.Canceled) || time.Since(began) != 5*time.Second {
				t.Errorf("got %v after %s", err, time.Since(began))
			}
		})
	})
	t.Run("a request is interrupted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			server := &script{answers: []http.HandlerFunc{stall}}

			time.AfterFunc(time.Second, cancel)
			err := read(ctx, newClient(server))
			must.Hold(t, errors.Is(err, context.Canceled) && len(server.at) == 1, err, "after", len(server.at), "requests")
		})
	})
}

// TestTimeoutIsPerTry: four tries of ten seconds each, and three pauses.
func TestTimeoutIsPerTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{answers: []http.HandlerFunc{stall}}

		began := time.Now()
		err := read(t.Context(), newClient(server))
		took := time.Since(began)
		must.Hold(t, took >= 41*time.Second && took <= 44*time.Second && len(server.at) == 4, len(server.at), "tries took", took)
		must.Fail(t, err, "no answer within 10s", "raise request_timeout")
	})
}
