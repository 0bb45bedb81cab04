package conformance

import (
	"context"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// If a case fails and passes its reruns, a clause that failed becomes inconclusive, and a clause that passed stays PASS.
func TestUnstableCase(t *testing.T) {
	r := &run{report: &report.Report{Results: []report.Result{
		{Clause: "JOB-17", Case: "JOB-17", Level: "MUST", Verdict: report.Fail}, {Clause: "JOB-11", Case: "JOB-17", Level: "MUST", Verdict: report.Pass},
	}}}
	r.settleVerdicts(map[string]string{"JOB-17": "1/3"})
	must.Equal(t, []report.Verdict{r.report.Results[0].Verdict, r.report.Results[1].Verdict}, []report.Verdict{report.Inconclusive, report.Pass})
}

// An interrupted preflight doesn't say that the target took too long.
func TestInterruptedPreflight(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Equal(t, unreachableReason(ctx.Err()), "context canceled")
}
