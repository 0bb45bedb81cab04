package conformance

import (
	"context"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// If a case fails and passes its reruns, a clause that failed becomes inconclusive, and a clause that passed stays PASS.
// A clause that a skipped clause blocks is inconclusive. Its reason has the verdict of that clause.
func TestInconclusiveVerdicts(t *testing.T) {
	r := &run{report: &report.Report{Results: []report.Result{
		{Clause: "JOB-17", Case: "JOB-17", Level: "MUST", Verdict: report.Fail}, {Clause: "JOB-11", Case: "JOB-17", Level: "MUST", Verdict: report.Pass},
		{Clause: "VER-57", Verdict: report.Skip}, {Clause: "VER-16", Verdict: report.Blocked, BlockedBy: "VER-57", Reason: "404"},
	}}}
	r.settleVerdicts(map[string]string{"JOB-17": "1/3"})
	must.Equal(t, []report.Verdict{r.report.Results[0].Verdict, r.report.Results[1].Verdict}, []report.Verdict{report.Inconclusive, report.Pass})
	must.Equal(t, string(r.report.Results[3].Verdict)+" "+r.report.Results[3].Reason, "INCONCLUSIVE a step that belongs to VER-57 (SKIP) failed: 404")
}

// An interrupted preflight doesn't say that the target took too long.
func TestInterruptedPreflight(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Equal(t, unreachableReason(ctx.Err()), "context canceled")
}
