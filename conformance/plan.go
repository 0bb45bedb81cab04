package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Planned is an upper bound of what a run does.
type Planned struct {
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
func Plan(o Options) (Planned, error) {
	chosen, err := o.clauses()
	if err != nil {
		return Planned{}, err
	}
	r := &run{Options: o}
	r.setDefaults()
	p := Planned{Target: cmp.Or(o.Target.V2(), o.Target.Queue(), o.Target.V1()), Requests: preflightRequests, Skipped: map[string][]string{}}
	toRun, skipped := r.chooseCases(casesOf(chosen), "")
	for _, c := range toRun {
		requests, jobs, seconds := r.cost(c)
		p.Cases = append(p.Cases, c.ID)
		p.Requests, p.Jobs, p.Seconds = p.Requests+requests, p.Jobs+jobs, p.Seconds+seconds
		if !o.Target.WaitsForFree() {
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
	if r.allowNeeded(c)&suite.Create != 0 {
		requests += fixtureRequests
	}
	return requests, jobs, seconds
}

// chooseCases returns the cases that run, and why the others are skipped. If not all fit
// into the bounds of the run, cases that state a clause come first, and MUSTs before them
// all.
func (r *run) chooseCases(list []*suite.Case, refused string) (toRun []*suite.Case, skipped map[string]suite.Outcome) {
	skipped = map[string]suite.Outcome{}
	var possible []*suite.Case
	for _, c := range list {
		if o, no := r.skipReason(c, refused); no {
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
	allRequests, allSeconds := preflightRequests, 0.0
	for _, c := range byPriority {
		requests, _, seconds := r.cost(c)
		if r.MaxRequests > 0 && allRequests+requests > r.MaxRequests || r.MaxSeconds > 0 && allSeconds+seconds > r.MaxSeconds {
			skipped[c.ID] = suite.Outcome{
				Verdict: report.Skip, Code: report.SkipBudget,
				Reason: fmt.Sprintf("the run has --max-requests %d and --max-seconds %g: raise them, or --select fewer clauses", r.MaxRequests, r.MaxSeconds),
			}
			continue
		}
		allRequests, allSeconds = allRequests+requests, allSeconds+seconds
	}
	for _, c := range possible {
		if _, no := skipped[c.ID]; !no {
			toRun = append(toRun, c)
		}
	}
	return toRun, skipped
}

const preflightRequests = 5

// String describes the plan for people.
func (p Planned) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s: up to %s, %s, %.0f s of workers", report.Count(len(p.Cases), "case"), p.Target, report.Count(p.Requests, "request"), report.Count(p.Jobs, "job"), p.Seconds)
	if p.Wait > 0 {
		fmt.Fprintf(&b, ", %s of waiting", p.Wait)
	}
	b.WriteByte('\n')
	for _, why := range slices.Sorted(maps.Keys(p.Skipped)) {
		if code, _, _ := strings.Cut(why, ":"); code != report.SkipReason {
			fmt.Fprintf(&b, "%d skipped, %s\n", len(p.Skipped[why]), why)
		}
	}
	return b.String()
}
