package conformance

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/cases"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// selectClauses returns the clauses that patterns select: an id, a glob of ids
// (JOB-*), an area (JOB), or a level (MUST). A pattern with ! excludes its clauses;
// with such patterns alone, all others are selected. A pattern without a match is an
// error.
func selectClauses(patterns []string) ([]clauses.Clause, error) {
	all := clauses.All()
	if len(patterns) == 0 {
		return all, nil
	}
	in := map[string]bool{}
	if !slices.ContainsFunc(patterns, func(p string) bool { return !strings.HasPrefix(p, "!") }) {
		for _, c := range all {
			in[c.ID] = true
		}
	}
	for _, p := range patterns {
		p, without := strings.CutPrefix(p, "!")
		some := false
		for _, c := range all {
			if matches(p, c) {
				some = true
				in[c.ID] = !without
			}
		}
		if !some {
			return nil, fmt.Errorf("no clause matches %q: `conformance list` has all of them", p)
		}
	}
	list := slices.DeleteFunc(slices.Clone(all), func(c clauses.Clause) bool { return !in[c.ID] })
	if len(list) == 0 {
		return nil, fmt.Errorf("%s chooses no clause", strings.Join(patterns, ","))
	}
	return list, nil
}

func matches(p string, c clauses.Clause) bool {
	glob, err := path.Match(p, c.ID)
	return err == nil && glob || strings.EqualFold(p, c.Area()) || strings.EqualFold(p, string(c.Level))
}

// casesOf are the cases that judge at least one of the clauses.
func casesOf(list []clauses.Clause) (some []*suite.Case) {
	all := cases.All()
	for i := range all {
		if slices.ContainsFunc(list, func(c clauses.Clause) bool { return slices.Contains(all[i].AllClauses(), c.ID) }) {
			some = append(some, &all[i])
		}
	}
	return some
}
