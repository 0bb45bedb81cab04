package suite

import (
	"context"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestContainsDecodesEscapes(t *testing.T) {
	a := Answer{Body: []byte(`{"a":"\u0073ecret"}`), json: map[string]any{"a": "secret"}}
	must.Hold(t, a.Contains("secret") && a.Contains("u0073ecret") && !a.Contains("other"), "the decoded or the raw body isn't searched")
}

// A case whose wait ends because the run is interrupted says so.
func TestInterruptedWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer func() { must.Equal(t, recover().(stop).Reason, "interrupted", "the reason") }()
	(&C{ctx: ctx}).clockStopped(ctx.Err())
}
