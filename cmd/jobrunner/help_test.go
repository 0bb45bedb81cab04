package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/clitest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Each command has a help, and accepts each of its examples.
func TestHelp(t *testing.T) { clitest.Check(t, newParser) }

// docs/reference/jobrunner.md lists all exit statuses. Other tests cause each of them.
func TestExitStatusesAreDocumented(t *testing.T) {
	text := must.ReadFile(t, "../../docs/reference/jobrunner.md")
	_, section, _ := strings.Cut(string(text), "## Exit statuses\n")
	must.Equal(t, exitUsage, exitNotStarted, "a usage error and a rejected job have the same exit status")
	for _, status := range []int{0, exitFailed, exitUsage, exitTimedOut, exitNoResult} {
		must.Hold(t, strings.Contains(section, fmt.Sprintf("\n| %d | ", status)), "docs/reference/jobrunner.md has no exit status", status)
	}
	must.Equal(t, strings.Count(section, "\n| "), 6, "rows of the table of exit statuses in docs/reference/jobrunner.md, with the header", section)
}
