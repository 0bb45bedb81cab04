package selftest_test

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// A clause is judged also where some of its cases can't run, as those that need a
// clock that is advanced; and where none can, it is skipped.
func TestFurtherCasesMaySkip(t *testing.T) {
	target := deployed(t, nil)
	target.Local, target.Advance, target.ClockStopped = false, nil, false
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB-17", "SUB-27", "RAT-06", "RAT-08"}, Allow: ^conformance.Allow(0), Ledger: t.TempDir() + "/ledger"})
	if got := verdicts(r); got["JOB-17"] != report.Pass || got["SUB-27"] != report.Skip || got["RAT-06"] != report.Pass || got["RAT-08"] != report.Pass {
		t.Errorf("%v", got)
	}
}

// Every clause with further cases has one that is not.
func TestFurtherCasesAreNotAlone(t *testing.T) {
	alone := map[string]bool{}
	for _, c := range conformance.Cases() {
		for _, id := range c.AllClauses() {
			if before, seen := alone[id]; !seen || before {
				alone[id] = c.Supplementary
			}
		}
	}
	for id, more := range alone {
		if more {
			t.Errorf("%s has further cases alone", id)
		}
	}
}
