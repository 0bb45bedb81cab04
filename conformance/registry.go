package conformance

import (
	_ "embed"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/cases"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Clauses are those that patterns choose, all for none. See `conformance list
// --help` for the patterns.
func Clauses(patterns []string) ([]clauses.Clause, error) { return selectClauses(patterns) }

// Cases are all cases.
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

// Unserved are the operations that the jobrunner does not serve yet, as "GET
// /v2/pods".
func Unserved() (operations []string) {
	for line := range strings.Lines(unservedTable) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			operations = append(operations, line)
		}
	}
	return operations
}
