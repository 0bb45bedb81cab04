package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/clitest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Each command has a help text, and its examples can be parsed.
func TestHelp(t *testing.T) { clitest.Check(t, newParser) }

// The documentation has the exit codes of the constants. Other tests check when each occurs.
func TestExitCodesAreDocumented(t *testing.T) {
	text := must.ReadFile(t, "../../conformance/README.md")
	var documented []int
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| `).FindAllSubmatch(text, -1) {
		code := must.Do(strconv.Atoi(string(row[1])))(t)
		documented = append(documented, code)
	}
	all := []int{
		conformance.ExitConformant, conformance.ExitFailed, conformance.ExitUsage, conformance.ExitInconclusive, conformance.ExitLeaked, conformance.ExitInterrupted,
	}
	must.Equal(t, documented, all, "conformance/README.md documents")
}
