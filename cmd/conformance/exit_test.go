package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
)

// The documentation has the exit codes of the constants. Other tests check when each occurs.
func TestExitCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../conformance/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []int
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| `).FindAllSubmatch(text, -1) {
		code, err := strconv.Atoi(string(row[1]))
		if err != nil {
			t.Fatal(err)
		}
		documented = append(documented, code)
	}
	all := []int{
		conformance.ExitConformant, conformance.ExitFailed, conformance.ExitUsage, conformance.ExitInconclusive, conformance.ExitLeaked, conformance.ExitInterrupted,
	}
	if !slices.Equal(documented, all) {
		t.Errorf("conformance/README.md documents %v, expected %v", documented, all)
	}
}
