package report

import (
	"slices"
	"strings"
)

// gap is a reason for which clauses were not judged.
type gap struct {
	why     string
	clauses []string
}

func (g gap) String() string { return g.why + ": " + strings.Join(g.clauses, ", ") }

// gaps groups the clauses that were not judged by the reason.
func (r *Report) gaps() (list []gap) {
	for _, x := range r.Results {
		if !x.notJudged() {
			continue
		}
		why := strings.TrimSpace(stripControls(x.Reason))
		switch {
		case x.Code == SkipReason:
			why = "no case can judge it, conformance explain says why"
		case x.Verdict == Blocked:
			why = "stands on " + orElse(x.By, "another clause") + ", which is not kept"
		case why == "":
			why = "for no stated reason"
		}
		i := slices.IndexFunc(list, func(g gap) bool { return g.why == why })
		if i < 0 {
			i = len(list)
			list = append(list, gap{why: why})
		}
		list[i].clauses = append(list[i].clauses, x.Clause)
	}
	return list
}
