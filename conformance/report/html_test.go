package report_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// The page says why nothing could be judged.
func TestPreflightPage(t *testing.T) {
	r := &report.Report{Schema: report.Schema, Preflight: "unreachable: GET http://127.0.0.1:1/: connection refused", Exit: 3}
	text := written("html", r)
	if !strings.Contains(text, "Nothing could be judged") || !strings.Contains(text, "connection refused") {
		t.Error(text)
	}
}

// Every area of the registry has a title.
func TestAreas(t *testing.T) {
	for _, c := range clauses.All() {
		r := &report.Report{Results: []report.Result{{Clause: c.ID, Area: c.Area(), Level: string(c.Level), Verdict: report.Pass}}}
		if strings.Contains(written("html", r), "<h2>"+c.Area()+" ") {
			t.Fatalf("the area %s has no title in report/areas.go", c.Area())
		}
	}
}
