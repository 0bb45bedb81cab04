// Package python tells tests whether handlers in Python run here.
package python

import (
	"os"
	"os/exec"
	"testing"
)

// Need skips the test where there is no python3 of at least 3.10, which the
// stand-in for the worker SDK runs on. In CI the test fails.
func Need(t testing.TB) {
	t.Helper()
	if exec.CommandContext(t.Context(), "python3", "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run() == nil {
		return
	}
	missing := t.Skip
	if os.Getenv("CI") != "" {
		missing = t.Fatal
	}
	missing("there is no python3 of at least 3.10")
}
