package suite

import (
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// Exact tells whether the target's time passes only when the suite lets it: then
// a limit is judged to the second.
func (c *C) Exact() bool {
	return (c.env.Target.Still || c.env.Target.Virtual) && c.env.Target.Lateness == 0
}

const (
	exactEarly = 400 * time.Millisecond // nothing ends before its time
	exactLate  = 900 * time.Millisecond // a deployment may look after its jobs once a second
	// sweepLate is how late a deployment may look after its jobs, where nothing
	// else is granted.
	sweepLate = 5 * time.Second
)

// Grace is how late something that has a time may come.
func (c *C) Grace() time.Duration {
	if c.Exact() {
		return exactLate
	}
	return c.env.Target.Grace()
}

// Late is Grace where time is exact, and elsewhere what is given: how long after a
// limit the target must have kept it.
func (c *C) Late(wide time.Duration) time.Duration {
	if c.Exact() {
		return exactLate
	}
	return wide
}

// Early is how long before a limit the target must not have reached it.
func (c *C) Early(wide time.Duration) time.Duration {
	if c.Exact() {
		return exactEarly
	}
	return wide
}

// sweeps is how long after its limit a job may still be there, or run: what looks
// after them may do so now and then only.
func (c *C) sweeps() time.Duration {
	switch {
	case c.Exact():
		return sweepLate + exactLate
	case c.env.Target.Lateness > 0:
		return c.env.Target.Lateness
	}
	return sweepLate + c.env.Target.Grace()
}

// Past waits until a ttl, a retention or an execution time-out that is over at a
// limit must have taken effect.
func (c *C) Past(limit time.Time) { c.Until(limit.Add(c.sweeps())) }

// By judges what a ttl, a retention or an execution time-out that is over at a
// limit must have done, with a look that changes nothing. Where time is exact, a
// deployment that is late is warned of, and fails if it is later than any may be.
func (c *C) By(limit time.Time, look func()) {
	if c.Exact() {
		c.Until(limit.Add(exactLate))
		late := failure(look)
		if late == nil {
			return
		}
		late.Failure.Accepted = append(late.Failure.Accepted, fmt.Sprintf("the same up to %s later, which is late", sweepLate))
		c.warn(*late)
	}
	c.Past(limit)
	look()
}

// failure is how what is done fails, nil where it does not.
func failure(do func()) (failed *Outcome) {
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

// warn keeps the first failure of what only should be so.
func (c *C) warn(failed Outcome) {
	if c.soft == nil {
		failed.Verdict = report.Warn
		c.soft = &failed
	}
}
