package conformance

import (
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// State holds the journals from which deferred cases resume, by case. A journal contains
// answers of the target, but no key.
type State struct {
	Journals map[string]*suite.Journal `json:"journals"`
}

// Due returns the time at which the last of the cases can resume.
func (s *State) Due() (last time.Time) {
	for _, j := range s.Journals {
		if j.Due.After(last) {
			last = j.Due
		}
	}
	return last
}

// Select returns the clauses of the cases, for Options.Select.
func (s *State) Select() (clauses []string) {
	for _, c := range Cases() {
		if s.hasJournal(c.ID) {
			clauses = append(clauses, c.AllClauses()...)
		}
	}
	return clauses
}

func (s *State) hasJournal(id string) bool { return s != nil && s.Journals[id] != nil }

// deferrable tells whether a case can be deferred. A case that waits for webhook calls
// can't.
func (r *run) deferrable(c *suite.Case) bool {
	return r.Defer != nil && r.Target.Advance == nil && c.Needs&suite.Webhooks == 0
}

// journalFor returns the journal of a deferred case, or a new one if the case may be
// deferred now. Otherwise it returns nil.
func (r *run) journalFor(c *suite.Case) *suite.Journal {
	if !r.deferrable(c) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.Defer.Journals[c.ID]; j != nil {
		j.MaxWait = r.MaxWait
		return j
	}
	if c.WaitTime <= r.MaxWait {
		return nil
	}
	return &suite.Journal{Case: c.ID, MaxWait: r.MaxWait}
}

// keepJournal stores the journal of a deferred case and drops the journal of a finished
// one.
func (r *run) keepJournal(j *suite.Journal, a suite.Attempt) {
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

// Merge merges the results of a resumed run into the report of the run before.
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
	before.Duration += after.Duration
	before.TargetTime = report.Duration(after.Started.Sub(before.Started)) + after.Duration
	before.Count()
	before.Exit = ExitCode(before)
	if after.Exit == ExitInterrupted {
		before.Exit = ExitInterrupted
	}
}
