package conformance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Each line of a valid list of known deviations is empty, a comment, or an entry with a clause, a day and a reason.
// An error names its line.
func FuzzKnown(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text string) {
		known, err := conformance.ParseKnown(text)
		if err != nil {
			must.Hold(t, strings.HasPrefix(err.Error(), "line "), text, "the error names no line", err)
			return
		}
		lines := 0
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines++
			}
		}
		must.Equal(t, len(known), lines, text, "entries of", "lines")
		for id, d := range known {
			_, ok := clauses.Find(id)
			must.Hold(t, ok && d.Reason != "" && !d.Until.Equal(time.Time{}), text, "the entry", id, "is", d)
		}
	}, fuzz.Seed{"# known\nJOB-05 2027-01-31 RUNNING is shown\n\nJOB-17\t2027-02-28  two  words\r\n"}, fuzz.Seed{"JOB-05 2027-01-31 a\nJOB-05 2027-01-31 b"}, fuzz.Seed{"NO-1 2027-01-31 x"}, fuzz.Seed{"JOB-05 2027-02-30 x"})
}
