// Package python tells tests whether this machine can run handlers in Python.
package python

import (
	"os"
	"os/exec"
	"testing"
)

// Need skips the test without a python3 of at least 3.10, which the stand-in for the worker SDK
// requires. In CI the test fails instead.
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
