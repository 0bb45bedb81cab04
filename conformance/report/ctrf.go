package report

import (
	"io"
	"time"
)

// WriteCTRF writes the report in the Common Test Report Format. A clause is a test, and its
// area the test's suite.
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
		entry := test{Name: x.Clause + ": " + x.Statement, Status: statuses[x.Verdict], Duration: time.Duration(x.Duration).Milliseconds(), Message: oneLine(x), Raw: string(x.Verdict), Suite: []string{areaTitle(x.Area)}}
		if omitted := x.partsLeftOut(); omitted != "" {
			entry.Tags, entry.Message = []string{"partly judged"}, entry.Message+" left out: "+omitted
		}
		summary[entry.Status]++
		tests = append(tests, entry)
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
