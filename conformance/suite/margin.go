package suite

import (
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// Exact tells whether only the suite advances the target's clock. Limits are then judged to
// the second.
func (c *C) Exact() bool {
	return (c.env.Target.ClockStopped || c.env.Target.Virtual) && c.env.Target.Lateness == 0
}

const (
	exactEarly = 400 * time.Millisecond // how long before a limit nothing may end
	exactLate  = 900 * time.Millisecond // a deployment may check the limits of jobs once a second
	// maxSweepDelay is how late a deployment may check the limits of jobs, unless
	// Target.Lateness is set.
	maxSweepDelay = 5 * time.Second
)

// Grace is how late a timed effect may come.
func (c *C) Grace() time.Duration {
	if c.Exact() {
		return exactLate
	}
	return c.env.Target.Grace()
}

// LateMargin is how long after a limit the effect must have happened: Grace if time is
// exact, and wide otherwise.
func (c *C) LateMargin(wide time.Duration) time.Duration {
	if c.Exact() {
		return exactLate
	}
	return wide
}

// EarlyMargin is how long before a limit the effect must not have happened.
func (c *C) EarlyMargin(wide time.Duration) time.Duration {
	if c.Exact() {
		return exactEarly
	}
	return wide
}

// sweepMargin is how long after its limit a job may still exist or run, since a deployment
// may check limits periodically.
func (c *C) sweepMargin() time.Duration {
	switch {
	case c.Exact():
		return maxSweepDelay + exactLate
	case c.env.Target.Lateness > 0:
		return c.env.Target.Lateness
	}
	return maxSweepDelay + c.env.Target.Grace()
}

// UntilEffective waits until a ttl, a retention or an execution time-out must have taken
// effect.
func (c *C) UntilEffective(limit time.Time) { c.Until(limit.Add(c.sweepMargin())) }

// JudgeBy judges the effect of a ttl, a retention or an execution time-out. check only
// reads. If time is exact, a late effect is a warning, and an effect later than sweepMargin
// is a failure.
func (c *C) JudgeBy(limit time.Time, check func()) {
	if c.Exact() {
		c.Until(limit.Add(exactLate))
		failed := catchFailure(check)
		if failed == nil {
			return
		}
		failed.Failure.Accepted = append(failed.Failure.Accepted, fmt.Sprintf("the same up to %s later, with a warning", maxSweepDelay))
		c.keepWarning(*failed)
	}
	c.UntilEffective(limit)
	check()
}

// catchFailure returns the failure of a function, or nil if it passes.
func catchFailure(do func()) (failed *Outcome) {
	defer func() {
		r := recover()
		if s, ok := r.(stop); ok && s.Verdict == report.Fail {
			failed = &s.Outcome
		} else if r != nil {
			panic(r)
		}
	}()
	do()
	return nil
}

// keepWarning stores the first failure of a SHOULD.
func (c *C) keepWarning(failed Outcome) {
	if c.warning == nil {
		failed.Verdict = report.Warn
		c.warning = &failed
	}
}
