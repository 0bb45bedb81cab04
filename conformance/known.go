package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// Deviation is a clause that a deployment is known to violate.
type Deviation struct {
	Until  time.Time // the entry has expired at this time
	Reason string
}

// Known maps the ids of clauses to their listed deviations.
type Known map[string]Deviation

// ParseKnown parses a list of known deviations. Each line has a clause's id, the last day
// on which the entry is valid, and the reason, separated by blanks. Lines that begin with #
// are comments.
func ParseKnown(text string) (Known, error) {
	known := Known{}
	var errs []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 {
			errs = append(errs, fmt.Errorf("line %d: write the clause, the last day and the reason, like: JOB-05 2027-01-31 RUNNING is shown", n))
			continue
		}
		until, err := time.Parse(time.DateOnly, f[1])
		_, ok := clauses.Find(f[0])
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("line %d: the clause %s doesn't exist", n, f[0]))
		case err != nil:
			errs = append(errs, fmt.Errorf("line %d: %q isn't a day like 2027-01-31", n, f[1]))
		case known[f[0]].Reason != "":
			errs = append(errs, fmt.Errorf("line %d: %s is listed twice", n, f[0]))
		default:
			known[f[0]] = Deviation{until.AddDate(0, 0, 1), strings.Join(f[2:], " ")}
		}
	}
	return known, errors.Join(errs...)
}

// mark changes the verdicts of listed clauses. It returns a text for each stale entry,
// which has expired or whose clause passes.
func (k Known) mark(results []report.Result, now time.Time) (stale []string) {
	for i := range results {
		r := &results[i]
		d, listed := k[r.Clause]
		switch {
		case !listed:
		case !now.Before(d.Until):
			stale = append(stale, fmt.Sprintf("%s: the entry expired on %s (%s)", r.Clause, d.Until.Format(time.DateOnly), d.Reason))
		case r.Verdict == report.Fail || r.Verdict == report.Warn:
			r.Verdict, r.Reason = report.Known, d.Reason
		case r.Verdict == report.Pass || r.Verdict == report.Observed:
			r.Verdict, r.Reason = report.Unexpected, "listed as a known deviation: "+d.Reason
			stale = append(stale, fmt.Sprintf("%s is kept: remove it from the list (%s)", r.Clause, d.Reason))
		}
	}
	return stale
}
