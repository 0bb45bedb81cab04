package suite

import (
	"context"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A case whose wait ends because the run is interrupted says so.
func TestInterruptedWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer func() { must.Equal(t, recover().(stop).Reason, "interrupted", "the reason") }()
	(&C{ctx: ctx}).clockStopped(ctx.Err())
}
