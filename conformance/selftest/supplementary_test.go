package selftest_test

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// A clause is judged if at least one of its cases can run, for example without a clock that
// can be advanced. Otherwise it is skipped.
func TestSupplementaryCasesMaySkip(t *testing.T) {
	target := startDeployment(t, nil)
	target.Local, target.Advance, target.ClockStopped = false, nil, false
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB-17", "SUB-27", "RAT-06", "RAT-08"}, Allow: ^conformance.Allow(0), Ledger: t.TempDir() + "/ledger"})
	if got := verdicts(r); got["JOB-17"] != report.Pass || got["SUB-27"] != report.Skip || got["RAT-06"] != report.Pass || got["RAT-08"] != report.Pass {
		t.Errorf("%v", got)
	}
}
