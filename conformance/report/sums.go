package report

import (
	"cmp"
	"slices"
)

// Address returns an address of the target.
func (t Target) Address() string {
	return cmp.Or(t.BaseURL, t.QueueURL, t.BaseURLV1)
}

// Sum counts the verdicts of one level.
type Sum struct {
	Level  string
	Total  int
	Counts map[Verdict]int
}

// Sums returns the sums by level, strongest first.
func (r *Report) Sums() (list []Sum) {
	for _, level := range []string{"MUST", "SHOULD", "MAY", "UNSPEC"} {
		s := Sum{Level: level, Counts: map[Verdict]int{}}
		for _, x := range r.Results {
			if x.Level == level {
				s.Total++
				s.Counts[x.Verdict]++
			}
		}
		if s.Total > 0 {
			list = append(list, s)
		}
	}
	return list
}

// Attention returns the results that need attention, worst first.
func (r *Report) Attention() (list []Result) {
	for _, x := range r.Results {
		if x.needsAttention() {
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(a, b Result) int {
		return slices.Index(Verdicts, a.Verdict) - slices.Index(Verdicts, b.Verdict)
	})
	return list
}

func (x *Result) needsAttention() bool {
	return x.Verdict != Pass && x.Verdict != Skip && x.Verdict != Observed
}
