package report

import (
	"cmp"
	"slices"
	"strings"
)

// gap is a reason why clauses were not judged, or only partly.
type gap struct {
	reason  string
	clauses []string
}

func (g gap) String() string { return g.reason + ": " + strings.Join(g.clauses, ", ") }

// gaps groups the clauses that were not judged by reason.
func (r *Report) gaps() (list []gap) {
	for _, x := range r.Results {
		if !x.notJudged() {
			continue
		}
		reason := x.Reason
		switch {
		case x.Code == SkipReason:
			reason = "no case can judge it, see conformance explain"
		case x.Verdict == Blocked:
			reason = "blocked by " + cmp.Or(x.By, "another clause")
		}
		list = addGap(list, reason, x.Clause)
	}
	return list
}

// partGaps groups the partly judged clauses by reason.
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

func addGap(list []gap, reason, clause string) []gap {
	reason = cmp.Or(strings.TrimSpace(stripControls(reason)), "without a reason")
	i := slices.IndexFunc(list, func(g gap) bool { return g.reason == reason })
	if i < 0 {
		i = len(list)
		list = append(list, gap{reason: reason})
	}
	if !slices.Contains(list[i].clauses, clause) {
		list[i].clauses = append(list[i].clauses, clause)
	}
	return list
}

// partsLeftOut returns, in one line, the parts that were left out of a partly judged
// clause, or "".
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
