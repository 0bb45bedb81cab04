package conformance

import (
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// State is what cases that were put off need to go on, by case. It has no key in
// it, but answers of the target.
type State struct {
	Journals map[string]*suite.Journal `json:"journals"`
}

// Due is when the last of the cases can go on.
func (s *State) Due() (last time.Time) {
	for _, j := range s.Journals {
		if j.Due.After(last) {
			last = j.Due
		}
	}
	return last
}

// Select chooses the clauses of the cases.
func (s *State) Select() (clauses []string) {
	for _, c := range Cases() {
		if s.has(c.ID) {
			clauses = append(clauses, c.AllClauses()...)
		}
	}
	return clauses
}

func (s *State) has(id string) bool { return s != nil && s.Journals[id] != nil }

// deferrable tells whether a case can be put off: calls of the target come when
// they come.
func (r *run) deferrable(c *suite.Case) bool {
	return r.Defer != nil && r.Target.Advance == nil && c.Needs&suite.Webhooks == 0
}

// journal is that of a case, nil for one that is not put off.
func (r *run) journal(c *suite.Case) *suite.Journal {
	if !r.deferrable(c) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.Defer.Journals[c.ID]; j != nil {
		j.Longest = r.MaxWait
		return j
	}
	if c.WaitTime <= r.MaxWait {
		return nil
	}
	return &suite.Journal{Case: c.ID, Longest: r.MaxWait}
}

// keep keeps the journal of a case that was put off, and no other.
func (r *run) keep(j *suite.Journal, a suite.Attempt) {
	switch {
	case j == nil:
	case a.Code == report.SkipDeferred:
		if r.Defer.Journals == nil {
			r.Defer.Journals = map[string]*suite.Journal{}
		}
		r.Defer.Journals[j.Case] = j
	default:
		delete(r.Defer.Journals, j.Case)
	}
}

// Merge puts the results of a run that went on into the report of the one
// before.
func Merge(before, after *report.Report) {
	for i := range before.Results {
		at := slices.IndexFunc(after.Results, func(x report.Result) bool { return x.Clause == before.Results[i].Clause })
		if at >= 0 {
			before.Results[i] = after.Results[at]
		}
	}
	before.Requests, before.Jobs = before.Requests+after.Requests, before.Jobs+after.Jobs
	before.Reruns = before.Reruns.Add(after.Reruns)
	before.Leaked, before.Preflight = after.Leaked, after.Preflight
	before.Took += after.Took
	before.Passed = report.Duration(after.Started.Sub(before.Started)) + after.Took
	before.Count()
	before.Exit = code(before)
	if after.Exit == ExitInterrupted {
		before.Exit = ExitInterrupted
	}
}
