package selftest_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// A run that judges nothing is inconclusive, whatever the reason, and names the
// clauses that it did not judge.
func TestNothingJudged(t *testing.T) {
	local, remote := startDeployment(t, nil), startDeployment(t, nil)
	remote.Local, remote.Advance, remote.UserKey, remote.OtherKey = false, nil, "", ""
	for name, o := range map[string]conformance.Options{
		"no case can judge it": {Target: local, Select: []string{"CLI"}},
		"--allow create":       {Target: remote, Select: []string{"V-05"}},
	} {
		r := judge(t, o)
		var b strings.Builder
		report.Terminal(&b, r, false)
		if r.Exit != conformance.ExitInconclusive || !strings.Contains(b.String(), name) || !strings.Contains(b.String(), "inconclusive: nothing was judged") {
			t.Errorf("exit code %d:\n%s", r.Exit, &b)
		}
		if len(r.NotJudged) != len(r.Results) {
			t.Errorf("%d of %d clauses are named: %v", len(r.NotJudged), len(r.Results), r.NotJudged)
		}
	}
}

// A run is inconclusive where a MUST can't be judged because a SHOULD is not kept:
// otherwise no exit code would show that.
func TestMustBlockedByBrokenShould(t *testing.T) {
	target := startDeployment(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.URL.Path, "/status/") {
				h.ServeHTTP(w, r)
				return
			}
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			if answer.Code == http.StatusNotFound {
				answer.Code = http.StatusGone
			}
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes()) // a failed write shows in the verdicts
		})
	})
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB-40", "SUB-0*"}})
	got := verdicts(r)
	if got["JOB-40"] != report.Warn || r.Counts[report.Inconclusive] == 0 || r.Exit != conformance.ExitInconclusive {
		t.Errorf("exit code %d, JOB-40 is %s, %v", r.Exit, got["JOB-40"], r.Counts)
	}
	for _, x := range r.Results {
		if x.Verdict == report.Inconclusive && !strings.Contains(x.Reason, "it stands on JOB-40") {
			t.Errorf("%s: %s", x.Clause, x.Reason)
		}
	}
}

// A resumed run that is interrupted ends so, whatever the first part found.
func TestMergeKeepsInterruption(t *testing.T) {
	before := &report.Report{Results: []report.Result{{Clause: "JOB-17", Verdict: report.Pass}}}
	conformance.Merge(before, &report.Report{Exit: conformance.ExitInterrupted})
	if before.Exit != conformance.ExitInterrupted {
		t.Errorf("exit code %d", before.Exit)
	}
}
