package selftest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A run that judges nothing is inconclusive, whatever the reason, and names all clauses.
func TestNothingJudged(t *testing.T) {
	local, remote := startDeployment(t, nil), startDeployment(t, nil)
	remote.Local, remote.Advance, remote.UserKey, remote.OtherKey = false, nil, "", ""
	for reason, o := range map[string]conformance.Options{
		"no case can judge it": {Target: local, Select: []string{"CLI"}},
		"--allow create":       {Target: remote, Select: []string{"V-05"}},
	} {
		r := judge(t, o)
		var b strings.Builder
		report.Terminal(&b, r, false)
		must.Hold(t, r.Exit == conformance.ExitInconclusive && strings.Contains(b.String(), reason) &&
			strings.Contains(b.String(), "inconclusive: nothing was judged"), "exit code", r.Exit, &b)
		must.Equal(t, len(r.NotJudged), len(r.Results), "clauses are named", r.NotJudged)
	}
}

// A clause with a skipped case is partly judged. Every form of the report gives the reason.
func TestSkippedCaseMakesClausePartlyJudged(t *testing.T) {
	target := startDeployment(t, nil)
	target.Endpoint = createEndpoint(t, target)
	target.Local, target.Advance = false, nil
	withoutV1 := target
	withoutV1.NoV1, withoutV1.OtherKey = true, ""
	jobs := suite.Create | suite.Queue
	for name, o := range map[string]conformance.Options{
		"reads only":                    {Target: target, Select: []string{"AUT", "ERR-02", "BIL"}},
		"short waits":                   {Target: target, Allow: jobs, MaxWait: time.Second, Select: []string{"AUT-03", "AUT-08", "WEB-01", "LIM-14", "SUB-04"}},
		"one version, without two keys": {Target: withoutV1, Allow: jobs, MaxWait: time.Second, Select: []string{"AUT-0*", "AUT-10", "V", "R-03", "M"}},
	} {
		plan := must.Do(conformance.Plan(o))(t)
		r := judge(t, o)
		var b strings.Builder
		report.Terminal(&b, r, false)
		must.Hold(t, len(r.PartlyJudged) != 0 && strings.Contains(b.String(), fmt.Sprintf(", %d of them partly", len(r.PartlyJudged))),
			name, len(r.PartlyJudged), "clauses are partly judged:", &b)
		for codeAndReason, skipped := range plan.Skipped {
			_, reason, _ := strings.Cut(codeAndReason, ": ")
			for _, c := range conformance.Cases() {
				i := slices.IndexFunc(r.Results, func(x report.Result) bool { return c.Judges(x.Clause) })
				if i < 0 || !slices.Contains(skipped, c.ID) || c.Needs&suite.DescribedDialect != 0 {
					continue
				}
				x := r.Results[i]
				must.Hold(t, slices.ContainsFunc(x.LeftOut, func(o report.Omission) bool { return o.Case == c.ID && o.Reason == reason && o.Code != "" }), name, x.Clause, "lacks", c.ID, "which was skipped", reason)
				must.Equal(t, x.Verdict != report.Skip && x.Verdict != report.Blocked, slices.Contains(r.PartlyJudged, x.Clause), name, x.Clause, x.Verdict, "and partly judged are", r.PartlyJudged)
			}
		}
	}
}

// A clause is partly judged if a case leaves out a part.
func TestOmissionWithinCaseMakesClausePartlyJudged(t *testing.T) {
	target := startDeployment(t, nil)
	o := conformance.Options{Target: target, Select: []string{"V-07", "AUT-10", "SUB-04"}, MaxWait: time.Hour}
	r := judge(t, o)
	must.Hold(t, len(r.PartlyJudged) == 0, "partly judged locally", r.PartlyJudged)
	o.Target.NoV1 = true
	o.Select = []string{"AUT-10"}
	r = judge(t, o)
	must.Hold(t, len(r.PartlyJudged) == 1 && strings.Contains(r.Results[0].LeftOut[0].Reason, "version 1"), "without version 1:", r.Results[0].LeftOut)
	o.Target.Local, o.Target.NoV1, o.Allow = false, false, suite.Create|suite.Queue
	o.Select = []string{"V-07", "SUB-04"}
	r = judge(t, o)
	must.Hold(t, len(r.PartlyJudged) == 2, "partly judged remotely", r.PartlyJudged)
}

// A run that excludes version 1 sends it no request.
func TestExcludedVersionGetsNoRequest(t *testing.T) {
	target := startDeployment(t, func(h http.Handler) http.Handler {
		return wirefault.Handler(h, wirefault.Deployment{}, &wirefault.Fault{Path: "^/v1/", Drop: "before"})
	})
	target.NoV1 = true
	r := judge(t, conformance.Options{Target: target, Select: []string{"VER-66", "VER-82"}})
	must.Equal(t, r.Counts[report.Pass], 2, r.Counts)
}

// A MUST that is blocked by a violated SHOULD is inconclusive, so that the exit code shows that it wasn't judged.
func TestMustBlockedByBrokenShould(t *testing.T) {
	target := startDeployment(t, func(h http.Handler) http.Handler {
		return wirefault.Handler(h, wirefault.Deployment{}, &wirefault.Fault{Path: "/status/", Status: http.StatusNotFound, Answer: wirefault.Edit{Status: http.StatusGone}})
	})
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB-40", "SUB-0*"}})
	got := verdicts(r)
	must.Hold(t, got["JOB-40"] == report.Warn && r.Counts[report.Inconclusive] != 0 && r.Exit == conformance.ExitInconclusive,
		"exit code", r.Exit, "JOB-40 is", got["JOB-40"], r.Counts)
	for _, x := range r.Results {
		must.Hold(t, x.Verdict != report.Inconclusive || strings.Contains(x.Reason, "it depends on JOB-40"), x.Clause, "is inconclusive for another reason:", x.Reason)
	}
}

// A merged report has the exit code of an interrupted resume, and the stale entries of both runs.
func TestMerge(t *testing.T) {
	before := &report.Report{Results: []report.Result{{Clause: "JOB-17", Verdict: report.Pass}}, Stale: []string{"a"}}
	conformance.Merge(before, &report.Report{Exit: conformance.ExitInterrupted, Stale: []string{"a", "b"}})
	must.Hold(t, before.Exit == conformance.ExitInterrupted && slices.Equal(before.Stale, []string{"a", "b"}), "the merged report has exit code", before.Exit, "and the stale entries", before.Stale)
}
