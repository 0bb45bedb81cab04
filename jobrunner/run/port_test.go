package run_test

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Linux chooses ports from 32768 for connections, other systems higher ones.
func TestFreePortIsNotOneOfConnections(t *testing.T) {
	for range 100 {
		port, err := run.FreePort(t.Context())
		must.Require(t, err == nil && port >= 20000 && port < 30000, port, err)
	}
}
