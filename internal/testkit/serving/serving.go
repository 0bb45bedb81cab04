// Package serving starts the jobrunner's program for tests.
package serving

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Start starts `jobrunner serve`, which is killed at the end of the test, and returns its greeting once it listens.
func Start(t testing.TB, cmd *exec.Cmd) (greeting []string) {
	t.Helper()
	out := must.Do(cmd.StdoutPipe())(t)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // fails after a Wait of the test
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		greeting = append(greeting, lines.Text())
		if strings.HasPrefix(lines.Text(), "Next:") {
			go func() { _, _ = io.Copy(io.Discard, out) }() // until its end
			return greeting
		}
	}
	_ = cmd.Wait() // for its stderr
	t.Fatalf("%q did not start: %s%s", cmd.Args, strings.Join(greeting, "\n"), cmd.Stderr)
	return nil
}

// Exported returns a variable's value in a greeting, or "".
func Exported(greeting []string, name string) string {
	for _, line := range greeting {
		if value, ok := strings.CutPrefix(line, "export "+name+"="); ok {
			return value
		}
	}
	return ""
}
