// Package selftest_test tests the suite against the jobrunner and against faulty servers.
package selftest_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A case declares its clause in full, or not at all if another case does. All declarations of a clause are equal.
func TestCasesDeclareTheirClauses(t *testing.T) {
	type statement struct {
		level        suite.Level
		source, text string
		live         suite.LiveLevel
	}
	idPattern := regexp.MustCompile(`^[A-Z]+-[0-9]{2}$`)
	declared := map[string]statement{}
	for _, c := range conformance.Cases() {
		s := statement{c.Level, c.Source, c.Statement, c.Live}
		other, alreadyDeclared := declared[c.Clause()]
		switch {
		case s == statement{} && c.ID != c.Clause():
			continue // another case declares the clause
		case !slices.Contains(suite.Levels, c.Level) || c.Source == "" || c.Statement == "":
			t.Errorf("case %s has no valid Level, Source or Statement: %+v", c.ID, s)
		case alreadyDeclared && other != s:
			t.Errorf("case %s declares %+v, and another case of the clause %+v", c.ID, s, other)
		case !idPattern.MatchString(c.Clause()) || !slices.ContainsFunc(report.Areas, func(a report.Area) bool { return strings.HasPrefix(c.ID, a.ID+"-") }):
			t.Errorf("case %s: expected an id like JOB-01 or JOB-01-word, of an area in report/report.go", c.ID)
		}
		declared[c.Clause()] = s
	}
}

// Every clause has a case that isn't supplementary, or a reason for none; every case has a clause.
func TestClausesAndCases(t *testing.T) {
	judged, hasMainCase, seen := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range conformance.Cases() {
		must.Hold(t, !seen[c.ID], "two cases have the id", c.ID)
		seen[c.ID] = true
		must.Hold(t, c.Run != nil, "case", c.ID, "has no Run")
		for _, id := range c.AllClauses() {
			judged[id] = true
			hasMainCase[id] = hasMainCase[id] || !c.Supplementary
			_, ok := clauses.Find(id)
			must.Hold(t, ok, "case", c.ID, "judges", id, "which is not a clause")
		}
	}
	all := clauses.All()
	must.Hold(t, len(all) >= 320, "expected 320 clauses or more, got", len(all))
	ids := map[string]bool{}
	var missing []string
	for _, c := range all {
		must.Hold(t, !ids[c.ID], "two clauses have the id", c.ID)
		ids[c.ID] = true
		switch {
		case judged[c.ID] && c.Untestable != "":
			t.Errorf("%s has a case, and is marked untestable: %s", c.ID, c.Untestable)
		case judged[c.ID] && !hasMainCase[c.ID]:
			t.Errorf("%s has only supplementary cases", c.ID)
		case !judged[c.ID] && c.Untestable == "":
			missing = append(missing, c.ID)
		}
	}
	must.Hold(t, len(missing) == 0, "clauses with neither a case nor a reason why not:", strings.Join(missing, " "))
}

func TestMustsHaveMutants(t *testing.T) {
	for _, c := range clauses.All() {
		must.Hold(t, c.Level != suite.Must || c.Untestable != "" || len(conformance.Mutants(c.ID)) != 0, c.ID, "has no mutant")
	}
}

func TestSelection(t *testing.T) {
	for patterns, want := range map[string]string{
		"JOB-01": "JOB-01", "JOB-0[12],SUB-01": "JOB-01 JOB-02 SUB-01", "vol,V": "", "R,!MUST": "R-02 R-07 R-08 R-09", "": "all", "!UNSPEC,!MUST,!SHOULD": "JOB-10",
		"!UNSPEC, !MUST , !SHOULD": "JOB-10", "JOB-99": "", "JOB,!JOB": "",
	} {
		var list []string
		if patterns != "" {
			list = strings.Split(patterns, ",")
		}
		got, err := conformance.Clauses(list)
		var ids []string
		for _, c := range got {
			ids = append(ids, c.ID)
		}
		switch {
		case want == "all" && len(got) == len(clauses.All()):
		case want == "" && err != nil:
		case want != "" && err == nil && strings.Join(ids, " ") == want:
		default:
			t.Errorf("%q selects %v, %v; expected %q", patterns, ids, err, want)
		}
	}
}
