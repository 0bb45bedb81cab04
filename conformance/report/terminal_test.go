package report_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// Answers can't move the terminal's cursor.
func TestTerminalIsHarmless(t *testing.T) {
	r := sample()
	var b strings.Builder
	report.Terminal(&b, r, false)
	if strings.ContainsAny(b.String(), "\x1b\x01") || !strings.Contains(b.String(), `\x1b[31m`) {
		t.Errorf("the terminal is sent %q", b.String())
	}
}

// A conclusion claims no more than the results show.
func TestConclusion(t *testing.T) {
	for want, c := range map[string]struct {
		exit     int
		failed   []string
		verdicts []report.Verdict
	}{
		"conformant": {0, nil, []report.Verdict{report.Pass, report.Observed}},
		"conformant in the judged clauses: 1 of 3 clauses":                     {0, nil, []report.Verdict{report.Pass, report.Skip, report.Blocked}},
		"conformant but for known deviations (1); 1 weaker clause is not kept": {0, nil, []report.Verdict{report.Pass, report.Known, report.Warn}},
		"not conformant": {1, []string{"it failed"}, []report.Verdict{report.Pass, report.Fail}},
		"not conformant: the client fails without faults":               {1, []string{"it failed"}, []report.Verdict{report.Pass}},
		"the list of known deviations is stale":                         {1, nil, []report.Verdict{report.Unexpected}},
		"inconclusive":                                                  {3, nil, []report.Verdict{report.Pass, report.Inconclusive}},
		"inconclusive: nothing was judged":                              {3, nil, []report.Verdict{report.Skip, report.Inconclusive}},
		"an object of the suite was not deleted: run conformance sweep": {4, nil, []report.Verdict{report.Pass}},
		"interrupted": {130, nil, []report.Verdict{report.Pass}},
	} {
		r := &report.Report{Exit: c.exit, Failed: c.failed}
		for _, v := range c.verdicts {
			r.Results = append(r.Results, report.Result{Verdict: v, Reason: "the reason"})
		}
		r.Count()
		var b strings.Builder
		report.Terminal(&b, r, false)
		if lines := strings.Split(strings.TrimSpace(b.String()), "\n"); lines[len(lines)-1] != want {
			t.Errorf("%v with exit code %d: %q, not %q", c.verdicts, c.exit, lines[len(lines)-1], want)
		}
	}
}
