package conformance

import (
	_ "embed"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/cases"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

func Cases() []suite.Case { return cases.All() }

// Mutants returns descriptions of the faults that a clause must detect.
func Mutants(clause string) (words []string) {
	for _, m := range mutants.All() {
		if m.Clause == clause {
			words = append(words, m.Description)
		}
	}
	return words
}

//go:embed unserved.tsv
var unservedTable string

// Unserved returns the operations that the jobrunner doesn't serve yet, such as "GET
// /v2/pods".
func Unserved() (operations []string) {
	for line := range strings.Lines(unservedTable) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			operations = append(operations, line)
		}
	}
	return operations
}
