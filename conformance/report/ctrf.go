package report

import (
	"io"
	"time"
)

// WriteCTRF writes the report in the Common Test Report Format: a clause is a test, an area
// its suite.
func WriteCTRF(w io.Writer, r *Report) error {
	type test struct {
		Name     string   `json:"name"`
		Status   string   `json:"status"`
		Duration int64    `json:"duration"`
		Message  string   `json:"message,omitempty"`
		Raw      string   `json:"rawStatus"`
		Suite    []string `json:"suite"`
		Tags     []string `json:"tags,omitempty"`
	}
	statuses := map[Verdict]string{Pass: "passed", Observed: "passed", Fail: "failed", Unexpected: "failed", Error: "failed", Inconclusive: "other", Warn: "other", Known: "other", Skip: "skipped", Blocked: "skipped"}
	summary := map[string]int64{"tests": int64(len(r.Results)), "passed": 0, "failed": 0, "pending": 0, "skipped": 0, "other": 0}
	tests := []test{}
	for _, x := range r.Results {
		one := test{Name: x.Clause + ": " + x.Statement, Status: statuses[x.Verdict], Duration: time.Duration(x.Duration).Milliseconds(), Message: oneLine(x), Raw: string(x.Verdict), Suite: []string{areaTitle(x.Area)}}
		if left := x.partsLeftOut(); left != "" {
			one.Tags, one.Message = []string{"partly judged"}, one.Message+" left out: "+left
		}
		summary[one.Status]++
		tests = append(tests, one)
	}
	summary["start"], summary["stop"] = r.Started.UnixMilli(), r.Started.Add(time.Duration(r.Duration)).UnixMilli()
	return writeIndented(w, map[string]any{
		"reportFormat": "CTRF", "specVersion": "0.0.0",
		"results": map[string]any{
			"tool": map[string]string{"name": "conformance", "version": r.Version}, "summary": summary, "tests": tests,
			"environment": map[string]any{"appName": r.Title(), "extra": map[string]any{"documents": r.Documents, "problems": append(append([]string{}, r.Failed...), r.Leaked...)}},
		},
	})
}
