package suite

import (
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// Exact tells whether the target's time passes only when the suite lets it: then
// a limit is judged to the second.
func (c *C) Exact() bool {
	return (c.env.Target.ClockStopped || c.env.Target.Virtual) && c.env.Target.Lateness == 0
}

const (
	exactEarly = 400 * time.Millisecond // nothing ends before its time
	exactLate  = 900 * time.Millisecond // a deployment may check its jobs' limits once a second
	// maxSweepDelay is how late a deployment may check its jobs' limits, where no
	// other lateness is granted.
	maxSweepDelay = 5 * time.Second
)

// Grace is how late something that has a time may come.
func (c *C) Grace() time.Duration {
	if c.Exact() {
		return exactLate
	}
	return c.env.Target.Grace()
}

// LateMargin is Grace where time is exact, and elsewhere what is given: how long after a
// limit the target must have kept it.
func (c *C) LateMargin(wide time.Duration) time.Duration {
	if c.Exact() {
		return exactLate
	}
	return wide
}

// EarlyMargin is how long before a limit the target must not have reached it.
func (c *C) EarlyMargin(wide time.Duration) time.Duration {
	if c.Exact() {
		return exactEarly
	}
	return wide
}

// sweepMargin is how long after its limit a job may still exist or run: a deployment
// may check limits only now and then.
func (c *C) sweepMargin() time.Duration {
	switch {
	case c.Exact():
		return maxSweepDelay + exactLate
	case c.env.Target.Lateness > 0:
		return c.env.Target.Lateness
	}
	return maxSweepDelay + c.env.Target.Grace()
}

// UntilEffective waits until a ttl, a retention or an execution time-out that ends
// at a limit must have taken effect.
func (c *C) UntilEffective(limit time.Time) { c.Until(limit.Add(c.sweepMargin())) }

// JudgeBy judges the effect of a ttl, a retention or an execution time-out that ends
// at a limit. check changes nothing. Where time is exact, a late effect is a
// warning, and one later than sweepMargin a failure.
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

// catchFailure returns the failure of a function, nil where it passes.
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

// keepWarning keeps the first failure of a SHOULD.
func (c *C) keepWarning(failed Outcome) {
	if c.warning == nil {
		failed.Verdict = report.Warn
		c.warning = &failed
	}
}
