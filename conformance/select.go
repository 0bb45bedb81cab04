package conformance

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/cases"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Clauses returns the clauses that match patterns, or all for no patterns. A pattern is an
// id, a glob of ids (JOB-*), an area (JOB) or a level (MUST). A pattern with ! excludes its clauses; if all
// patterns have one, they exclude from all clauses. A pattern without a match is an error.
func Clauses(patterns []string) ([]clauses.Clause, error) {
	all := clauses.All()
	if len(patterns) == 0 {
		return all, nil
	}
	selected := map[string]bool{}
	if !slices.ContainsFunc(patterns, func(p string) bool { return !strings.HasPrefix(p, "!") }) {
		for _, c := range all {
			selected[c.ID] = true
		}
	}
	for _, p := range patterns {
		p, exclude := strings.CutPrefix(p, "!")
		matched := false
		for _, c := range all {
			if matches(p, c) {
				matched = true
				selected[c.ID] = !exclude
			}
		}
		if !matched {
			return nil, fmt.Errorf("no clause matches %q: `conformance list` has all of them", p)
		}
	}
	list := slices.DeleteFunc(slices.Clone(all), func(c clauses.Clause) bool { return !selected[c.ID] })
	if len(list) == 0 {
		return nil, fmt.Errorf("%s selects no clause", strings.Join(patterns, ","))
	}
	return list, nil
}

func matches(p string, c clauses.Clause) bool {
	glob, err := path.Match(strings.ToUpper(p), c.ID)
	return err == nil && glob || strings.EqualFold(p, c.Area()) || strings.EqualFold(p, string(c.Level))
}

// casesOf returns the cases that judge at least one of the clauses.
func casesOf(chosen []clauses.Clause) (list []*suite.Case) {
	all := cases.All()
	for i := range all {
		if slices.ContainsFunc(chosen, func(c clauses.Clause) bool { return slices.Contains(all[i].AllClauses(), c.ID) }) {
			list = append(list, &all[i])
		}
	}
	return list
}

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
