package report_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// An answer can't move the reader's cursor.
func TestTerminalIsHarmless(t *testing.T) {
	r := sample()
	var b strings.Builder
	report.Terminal(&b, r, false)
	if strings.ContainsAny(b.String(), "\x1b\x01") || !strings.Contains(b.String(), `\x1b[31m`) {
		t.Errorf("the terminal is sent %q", b.String())
	}
}

// A conclusion says no more than was found.
func TestConclusion(t *testing.T) {
	for want, c := range map[string]struct {
		exit     int
		failed   []string
		verdicts []report.Verdict
	}{
		"conformant": {0, nil, []report.Verdict{report.Pass, report.Observed}},
		"conformant as far as it was judged: 1 of 3 clauses":                   {0, nil, []report.Verdict{report.Pass, report.Skip, report.Blocked}},
		"conformant but for known deviations (1); 1 weaker clause is not kept": {0, nil, []report.Verdict{report.Pass, report.Known, report.Warn}},
		"not conformant": {1, []string{"it failed"}, []report.Verdict{report.Pass, report.Fail}},
		"not conformant: the client fails although nothing is scripted to fail":  {1, []string{"it failed"}, []report.Verdict{report.Pass}},
		"the list of known deviations is stale":                                  {1, nil, []report.Verdict{report.Unexpected}},
		"inconclusive":                                                           {3, nil, []report.Verdict{report.Pass, report.Inconclusive}},
		"inconclusive: nothing was judged":                                       {3, nil, []report.Verdict{report.Skip, report.Inconclusive}},
		"something that the suite made is left: conformance sweep takes it down": {4, nil, []report.Verdict{report.Pass}},
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
