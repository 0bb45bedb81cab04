package client

import (
	"fmt"
	"io"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// Terminal writes the report for people: a line for each clause that passes, then the
// same as for every run.
func Terminal(w io.Writer, r *report.Report, colours bool) {
	if r.Preflight == "" {
		for _, x := range r.Results {
			if x.Verdict == report.Pass {
				fmt.Fprintf(w, "PASS %s  %s\n", x.Clause, x.Statement)
			}
		}
	}
	report.Terminal(w, r, colours)
}
