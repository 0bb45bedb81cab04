package main

import (
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The documentation has the exit codes of the constants. Other tests check when each occurs.
func TestExitCodesAreDocumented(t *testing.T) {
	text := must.ReadFile(t, "../../conformance/README.md")
	var documented []int
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| `).FindAllSubmatch(text, -1) {
		code, err := strconv.Atoi(string(row[1]))
		must.Succeed(t, err)
		documented = append(documented, code)
	}
	all := []int{
		conformance.ExitConformant, conformance.ExitFailed, conformance.ExitUsage, conformance.ExitInconclusive, conformance.ExitLeaked, conformance.ExitInterrupted,
	}
	if !slices.Equal(documented, all) {
		t.Errorf("conformance/README.md documents %v, expected %v", documented, all)
	}
}
