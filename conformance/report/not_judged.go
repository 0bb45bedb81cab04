package report

import (
	"slices"
	"strings"
)

// gap is a reason for which clauses were not judged, or not fully.
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
		why := x.Reason
		switch {
		case x.Code == SkipReason:
			why = "no case can judge it, conformance explain says why"
		case x.Verdict == Blocked:
			why = "stands on " + orElse(x.By, "another clause") + ", which is not kept"
		}
		list = addGap(list, why, x.Clause)
	}
	return list
}

// partGaps groups the clauses that were judged partly by the reasons.
func (r *Report) partGaps() (list []gap) {
	for _, x := range r.Results {
		if x.partlyJudged() {
			for _, o := range x.LeftOut {
				list = addGap(list, o.Reason, x.Clause)
			}
		}
	}
	return list
}

func addGap(list []gap, why, clause string) []gap {
	why = orElse(strings.TrimSpace(stripControls(why)), "for no stated reason")
	i := slices.IndexFunc(list, func(g gap) bool { return g.why == why })
	if i < 0 {
		i = len(list)
		list = append(list, gap{why: why})
	}
	if !slices.Contains(list[i].clauses, clause) {
		list[i].clauses = append(list[i].clauses, clause)
	}
	return list
}

// partsLeftOut says in a line what of a partly judged clause was left out, "" of another.
func (x *Result) partsLeftOut() string {
	if !x.partlyJudged() {
		return ""
	}
	var list []gap
	for _, o := range x.LeftOut {
		list = addGap(list, o.Reason, o.Case)
	}
	var parts []string
	for _, g := range list {
		parts = append(parts, g.String())
	}
	return strings.Join(parts, "; ")
}
