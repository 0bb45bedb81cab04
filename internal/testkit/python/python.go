// Package python finds the Python that runs the tests' handlers.
package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Need skips the test without a python3 of at least 3.10, which the stand-in for the worker SDK
// requires. In CI the test fails instead. If python3 is a version manager's script such as pyenv's,
// which takes longer than Python itself, Need puts Python's own folder first on PATH.
func Need(t testing.TB) {
	t.Helper()
	if find() {
		return
	}
	missing := t.Skip
	if os.Getenv("CI") != "" {
		missing = t.Fatal
	}
	missing("python3 isn't installed, or is older than 3.10")
}

var find = sync.OnceValue(func() bool {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable) if sys.version_info >= (3, 10) else sys.exit(1)").Output() //nolint:noctx // it ends at once
	if err != nil {
		return false
	}
	program := strings.TrimSpace(string(out))
	if script, err := exec.LookPath("python3"); err == nil && script != program && filepath.Base(program) == "python3" {
		_ = os.Setenv("PATH", filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH")) // only saves time
	}
	return true
})
