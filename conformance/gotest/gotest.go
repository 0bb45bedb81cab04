// Package gotest judges a deployment from a Go test.
package gotest

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// Run judges a deployment; each clause is a subtest. Cases of every cost run and create
// their own endpoints, so the deployment should serve only this test. With Target.Advance,
// or with Target.Virtual in a testing/synctest bubble, half an hour takes no time. Without
// them, cases that wait for more than five minutes are skipped.
//
// A violated MUST, an inconclusive verdict and an error of the suite fail their subtest.
// Other deviations are only logged.
func Run(t *testing.T, target conformance.Target, configure ...func(*conformance.Options)) *report.Report {
	t.Helper()
	target.Local = true
	o := conformance.Options{Target: target}
	for _, set := range configure {
		set(&o)
	}
	r, err := conformance.Judge(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Preflight != "" {
		t.Fatal(r.Preflight)
	}
	for _, x := range r.Results {
		t.Run(x.Clause, func(t *testing.T) { logResult(t, x) })
	}
	for _, text := range append(r.Leaked, r.Stale...) {
		t.Error(text)
	}
	if r.Judged() == 0 {
		t.Error("nothing was judged")
	}
	return r
}

func logResult(t *testing.T, x report.Result) {
	switch x.Verdict {
	case report.Pass:
	case report.Skip:
		t.Skip(x.Reason)
	case report.Fail, report.Unexpected, report.Error, report.Inconclusive:
		t.Error(report.Text(x))
	default:
		t.Log(report.Text(x))
	}
}
