package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Planned is what a run would do.
type Planned struct {
	Target   string
	Cases    []string
	Requests int
	Jobs     int
	Seconds  float64       // for which workers are busy
	Wait     time.Duration // of the longest case, where the clock can't be advanced
	Skipped  map[string][]string
}

// A fixture takes two requests: one creates it, one deletes it.
const fixtureRequests = 2

// Plan returns the most that Judge would do, without a request to the target.
func Plan(o Options) (Planned, error) {
	chosen, err := selectClauses(o.Select)
	if err != nil {
		return Planned{}, err
	}
	r := &run{Options: o}
	r.setDefaults()
	p := Planned{Target: firstNonEmpty(o.Target.V2(), o.Target.Queue(), o.Target.V1()), Requests: preflightRequests, Skipped: map[string][]string{}}
	for _, c := range casesOf(chosen) {
		if skip, no := r.skipReason(c, ""); no {
			p.Skipped[skip.Code+": "+skip.Reason] = append(p.Skipped[skip.Code+": "+skip.Reason], c.ID)
			continue
		}
		requests, jobs, seconds := c.Cost()
		if r.allowNeeded(c)&suite.Create != 0 {
			requests += fixtureRequests
		}
		p.Cases = append(p.Cases, c.ID)
		p.Requests, p.Jobs, p.Seconds = p.Requests+requests, p.Jobs+jobs, p.Seconds+seconds
		if !o.Target.WaitsForFree() {
			p.Wait = max(p.Wait, c.WaitTime)
		}
	}
	return p, nil
}

const preflightRequests = 5

func firstNonEmpty(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// String describes the plan for people.
func (p Planned) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cases at %s: up to %d requests, %d jobs, %.0f s of workers", len(p.Cases), p.Target, p.Requests, p.Jobs, p.Seconds)
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
