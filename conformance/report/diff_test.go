package report_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func reportOf(x *report.Result) *report.Report {
	r := &report.Report{Schema: report.Schema}
	if x != nil {
		x.Clause, x.Statement = "JOB-01", "It holds."
		x.Level = cmp.Or(x.Level, "MUST")
		r.Results = []report.Result{*x}
	}
	return r
}

// The direction of a change depends on the verdicts, on why a clause was skipped, and on what was observed.
func TestDirections(t *testing.T) {
	type x = report.Result
	mandatory := func(v report.Verdict) *x { return &x{Verdict: v} }
	should := func(v report.Verdict) *x { return &x{Verdict: v, Level: "SHOULD"} }
	skip := func(code string) *x { return &x{Verdict: report.Skip, Code: code} }
	const worse, better, other, same = report.Worse, report.Better, report.Other, report.Direction("same")
	for _, c := range []struct {
		before, after *x
		want          report.Direction
	}{
		{mandatory(report.Pass), mandatory(report.Pass), same},
		{mandatory(report.Pass), mandatory(report.Fail), worse},
		{mandatory(report.Fail), mandatory(report.Pass), better},
		{mandatory(report.Pass), mandatory(report.Known), worse},
		{mandatory(report.Fail), mandatory(report.Known), other},
		{mandatory(report.Known), mandatory(report.Unexpected), better},
		{mandatory(report.Pass), mandatory(report.Blocked), worse},
		{mandatory(report.Pass), mandatory(report.Inconclusive), worse},
		{mandatory(report.Pass), mandatory(report.Error), worse},
		{mandatory(report.Fail), mandatory(report.Blocked), other},
		{mandatory(report.Blocked), mandatory(report.Pass), better},
		{mandatory(report.Blocked), mandatory(report.Fail), worse},
		{mandatory(report.Blocked), mandatory(report.Inconclusive), other},
		{should(report.Pass), should(report.Warn), worse},
		{should(report.Warn), should(report.Known), other},
		{should(report.Warn), should(report.Pass), better},
		{mandatory(report.Pass), skip(report.SkipFeature), worse},
		{mandatory(report.Pass), skip(report.SkipUntestable), worse},
		{mandatory(report.Pass), skip(report.SkipAllow), other},
		{mandatory(report.Pass), skip(report.SkipBudget), other},
		{mandatory(report.Pass), skip(report.SkipDeferred), other},
		{skip(report.SkipFeature), mandatory(report.Pass), better},
		{skip(report.SkipFeature), mandatory(report.Fail), worse},
		{skip(report.SkipFeature), skip(report.SkipAllow), other},
		{mandatory(report.Pass), nil, other},
		{nil, mandatory(report.Fail), worse},
		{nil, mandatory(report.Pass), better},
		{nil, mandatory(report.Blocked), other},
		{&x{Verdict: report.Observed, Observed: "404"}, &x{Verdict: report.Observed, Observed: "204"}, other},
		{&x{Verdict: report.Observed, Observed: "404"}, &x{Verdict: report.Observed, Observed: "404"}, same},
		{&x{Verdict: report.Observed, Level: "UNSPEC"}, &x{Verdict: report.Warn, Level: "UNSPEC"}, worse},
	} {
		d := report.Compare(reportOf(c.before), reportOf(c.after))
		got := same
		if len(d.Changes) > 0 {
			got = d.Changes[0].Direction
		}
		must.Hold(t, got == c.want && d.GotWorse() == (c.want == worse) && len(d.Changes)+d.Same == 1, c.before, "then", c.after, "is", got, "not", c.want)
	}
}

// A gate fails if nothing is judged, or if a client fails in the scenario without faults, unless it did before.
func TestFailedRunIsWorse(t *testing.T) {
	works, fails := reportOf(nil), reportOf(nil)
	fails.OtherFailures = []string{"in the scenario works, it failed"}
	for _, failed := range []*report.Report{{Preflight: "unreachable"}, fails} {
		must.Hold(t, report.Compare(works, failed).GotWorse() && !report.Compare(failed, failed).GotWorse() && !report.Compare(failed, works).GotWorse(),
			"only a change to", failed, "must be worse")
	}
	var b strings.Builder
	err := report.WriteDiff(&b, report.Compare(works, fails), false)
	must.Hold(t, err == nil && strings.Contains(b.String(), "FAILED in the scenario works"), err, &b)
}

// The text has broken clauses before the clauses that they block, and other differences.
func TestDiffText(t *testing.T) {
	before, after := sample(), sample()
	after.Dialect = "live\x1b"
	set := func(r *report.Report, clause string, change func(*report.Result)) {
		for i := range r.Results {
			if r.Results[i].Clause == clause {
				change(&r.Results[i])
			}
		}
	}
	set(before, "JOB-06", func(x *report.Result) { x.Verdict = report.Pass })
	set(before, "JOB-02", func(x *report.Result) { x.Verdict = report.Pass })
	set(after, "JOB-03", func(x *report.Result) { x.Verdict = report.Pass })
	set(after, "JOB-04", func(x *report.Result) { x.Observed, x.Statement = "204", "\x1b[31m" })
	var b strings.Builder
	must.Succeed(t, report.WriteDiff(&b, report.Compare(before, after), false))
	offset := 0
	for _, want := range []string{
		"dialect: described, now live\\x1b", "WORSE JOB-02 MUST  PASS → FAIL  Statement JOB-02 holds.", "accepted: 200", "WORSE JOB-06 MUST  PASS → BLOCKED",
		"BETTER JOB-03 SHOULD  WARN → PASS", "OTHER JOB-04 UNSPEC  OBSERVED → OBSERVED", "now       204", "2 worse, 1 better, 1 otherwise changed, 7 as before",
	} {
		i := strings.Index(b.String()[offset:], want)
		must.Require(t, i >= 0, want, "is missing or not in order in", &b)
		offset += i
	}
	must.Hold(t, !strings.Contains(b.String(), "\x1b"), "the text has colours")
}

// A file that isn't a report is rejected.
func TestRead(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"schema": "gpucloud-conformance/99"}`, `{"schema": "` + report.Schema + `"} {}`} {
		r, err := report.Read(strings.NewReader(text))
		must.Hold(t, err != nil, text, "is", r)
	}
}
