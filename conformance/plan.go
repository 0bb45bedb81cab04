package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/cases"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// RunPlan says what a run does at most.
type RunPlan struct {
	Target   string
	Cases    []string
	Requests int
	Jobs     int
	Seconds  float64             // of worker time
	Wait     time.Duration       // of the longest case; 0 if the clock can be advanced
	Skipped  map[string][]string // cases by reason
}

// fixtureRequests is the cost of a fixture: one request creates it, one deletes it.
const fixtureRequests = 2

// Plan returns what Judge would do, without a request to the target.
func Plan(o Options) (RunPlan, error) {
	chosen, err := o.clauses()
	if err != nil {
		return RunPlan{}, err
	}
	r := &run{Options: o}
	r.setDefaults()
	p := RunPlan{Target: cmp.Or(o.Target.V2(), o.Target.Queue(), o.Target.V1()), Requests: env.Preflight, Skipped: map[string][]string{}}
	toRun, skipped := r.chooseCases(casesOf(chosen), "")
	for _, c := range toRun {
		requests, jobs, seconds := r.cost(c)
		p.Cases = append(p.Cases, c.ID)
		p.Requests, p.Jobs, p.Seconds = p.Requests+requests, p.Jobs+jobs, p.Seconds+seconds
		if !o.Target.SkipsTime() {
			p.Wait = max(p.Wait, c.WaitTime)
		}
	}
	for id, skip := range skipped {
		p.Skipped[skip.Code+": "+skip.Reason] = append(p.Skipped[skip.Code+": "+skip.Reason], id)
	}
	return p, nil
}

// cost returns the most that a case and its fixtures request of the target.
func (r *run) cost(c *suite.Case) (requests, jobs int, seconds float64) {
	requests, jobs, seconds = c.Cost()
	if r.neededPermission(c)&suite.Create != 0 {
		requests += fixtureRequests
	}
	return requests, jobs, seconds
}

// chooseCases returns the cases that run, and why the others are skipped. If not all fit into the bounds
// of the run, the strongest level comes first, then the cheapest case. Further cases of a clause, such as SUB-01-chunked, come last.
func (r *run) chooseCases(list []*suite.Case, preflightError string) (toRun []*suite.Case, skipped map[string]suite.Outcome) {
	skipped = map[string]suite.Outcome{}
	var possible []*suite.Case
	for _, c := range list {
		if o, skip := r.skipReason(c, preflightError); skip {
			skipped[c.ID] = o
			continue
		}
		possible = append(possible, c)
	}
	rank := func(c *suite.Case) int {
		if c.Level == "" {
			return len(suite.Levels)
		}
		return slices.Index(suite.Levels, c.Level)
	}
	byPriority := slices.SortedStableFunc(slices.Values(possible), func(a, b *suite.Case) int {
		requestsOfA, _, _ := r.cost(a)
		requestsOfB, _, _ := r.cost(b)
		return cmp.Or(rank(a)-rank(b), requestsOfA-requestsOfB)
	})
	allRequests, allSeconds := env.Preflight, 0.0
	for _, c := range byPriority {
		requests, _, seconds := r.cost(c)
		var exceeded []string
		if r.MaxRequests > 0 && allRequests+requests > r.MaxRequests {
			exceeded = append(exceeded, fmt.Sprint("--max-requests ", r.MaxRequests))
		}
		if r.MaxSeconds > 0 && allSeconds+seconds > r.MaxSeconds {
			exceeded = append(exceeded, fmt.Sprint("--max-seconds ", r.MaxSeconds))
		}
		if exceeded != nil {
			skipped[c.ID] = suite.Outcome{
				Verdict: report.Skip, Code: report.SkipBudget,
				Reason: "the run has " + strings.Join(exceeded, " and ") + ": raise the limit, or --select fewer clauses",
			}
			continue
		}
		allRequests, allSeconds = allRequests+requests, allSeconds+seconds
	}
	return slices.DeleteFunc(possible, func(c *suite.Case) bool { return skipped[c.ID].Verdict != "" }), skipped
}

// String returns the plan as human-readable text.
func (p RunPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s: up to %s, %s, %.0f s of workers", report.Count(len(p.Cases), "case"), p.Target, report.Count(p.Requests, "request"), report.Count(p.Jobs, "job"), p.Seconds)
	if p.Wait > 0 {
		fmt.Fprintf(&b, ", the longest wait %s", p.Wait)
	}
	b.WriteByte('\n')
	for _, reason := range slices.Sorted(maps.Keys(p.Skipped)) {
		fmt.Fprintf(&b, "%d skipped, %s\n", len(p.Skipped[reason]), reason)
	}
	return b.String()
}

// Clauses returns the clauses that match patterns, or all for no patterns. A pattern is an
// id, a glob of ids (JOB-*), an area (JOB) or a level (MUST). A pattern that begins with ! excludes its clauses; if
// every pattern does, all other clauses are selected. A pattern without a match is an error.
func Clauses(patterns []string) ([]clauses.Clause, error) {
	all := clauses.All()
	if len(patterns) == 0 {
		return all, nil
	}
	selected := map[string]bool{}
	if !slices.ContainsFunc(patterns, func(p string) bool { return !strings.HasPrefix(strings.TrimSpace(p), "!") }) {
		for _, c := range all {
			selected[c.ID] = true
		}
	}
	for _, p := range patterns {
		p, exclude := strings.CutPrefix(strings.TrimSpace(p), "!")
		matched := false
		for _, c := range all {
			if matches(p, c) {
				matched = true
				selected[c.ID] = !exclude
			}
		}
		if !matched {
			return nil, fmt.Errorf("no clause matches %q: `conformance list` has all of them", p)
		}
	}
	list := slices.DeleteFunc(all, func(c clauses.Clause) bool { return !selected[c.ID] })
	if len(list) == 0 {
		return nil, fmt.Errorf("%s selects no clause", strings.Join(patterns, ","))
	}
	return list, nil
}

func matches(p string, c clauses.Clause) bool {
	glob, err := path.Match(strings.ToUpper(p), c.ID)
	return err == nil && glob || strings.EqualFold(p, c.Area()) || strings.EqualFold(p, string(c.Level))
}

// casesOf returns the cases that judge at least one of the clauses.
func casesOf(chosen []clauses.Clause) (list []*suite.Case) {
	all := cases.All()
	for i := range all {
		if slices.ContainsFunc(chosen, func(c clauses.Clause) bool { return all[i].Judges(c.ID) || slices.Contains(all[i].GivenClauses, c.ID) }) {
			list = append(list, &all[i])
		}
	}
	return list
}

func Cases() []suite.Case { return cases.All() }

// Mutants returns descriptions of the faults that a clause must detect.
func Mutants(clause string) (descriptions []string) {
	for _, m := range mutants.All() {
		if m.Clause == clause {
			descriptions = append(descriptions, m.Description)
		}
	}
	return descriptions
}

// Deviation is a clause that a deployment is known to violate.
type Deviation struct {
	Until  time.Time // the entry has expired at this time
	Reason string
}

// Known maps the ids of clauses to their listed deviations.
type Known map[string]Deviation

// ParseKnown parses a list of known deviations. Each line has a clause's id, the last day on which the
// entry is valid, and the reason, separated by blanks. Lines that begin with # are comments.
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

// mark changes listed clauses' verdicts. It returns a text for each entry that expired or whose clause passes entirely.
func (k Known) mark(results []report.Result, now time.Time) (stale []string) {
	for i := range results {
		r := &results[i]
		d, listed := k[r.Clause]
		switch {
		case !listed:
		case !now.Before(d.Until):
			stale = append(stale, fmt.Sprintf("%s: the last day of its entry was %s (%s)", r.Clause, d.Until.AddDate(0, 0, -1).Format(time.DateOnly), d.Reason))
		case r.Verdict == report.Fail || r.Verdict == report.Warn:
			r.Verdict, r.Reason = report.Known, d.Reason
		case len(r.LeftOut) > 0: // a case that did not run may fail
		case r.Verdict == report.Pass || r.Verdict == report.Observed:
			r.Verdict, r.Reason = report.Unexpected, "listed as a known deviation: "+d.Reason
			stale = append(stale, fmt.Sprintf("the deployment now satisfies %s: remove its entry from the list (%s)", r.Clause, d.Reason))
		}
	}
	return stale
}
