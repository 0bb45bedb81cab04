package client

import (
	"fmt"
	"io"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// Terminal writes the report for people: a line for each clause that is kept or
// was not judged, and why, then what the suite says of every run.
func Terminal(w io.Writer, r *report.Report, colours bool) {
	if r.Preflight == "" {
		for _, x := range r.Results {
			switch x.Verdict {
			case report.Pass:
				fmt.Fprintf(w, "PASS %s  %s\n", x.Clause, x.Statement)
			case report.Skip:
				fmt.Fprintf(w, "SKIP %s  %s\n  %-9s %s\n", x.Clause, x.Statement, "reason", x.Reason)
			}
		}
	}
	report.Terminal(w, r, colours)
}
