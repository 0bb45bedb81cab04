package suite

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Now returns the target's time.
func (c *C) Now() time.Time {
	if c.journal == nil {
		return c.env.Clock.Now()
	}
	return replayOrRecord(&c.journal.Times, &c.journal.timesReplayed, c.env.Clock.Now)
}

// Sleep waits in the target's time. Other cases run meanwhile.
func (c *C) Sleep(d time.Duration) { c.Until(c.Now().Add(d)) }

// Until waits until the target's time t.
func (c *C) Until(t time.Time) { c.untilAnswered(context.Background(), t) }

// untilAnswered waits until the target's time t, or until a context ends.
func (c *C) untilAnswered(answered context.Context, t time.Time) {
	if waited := c.deferUntil(t); waited { // in an earlier run
		return
	}
	c.WaitUntilSent()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(answered, cancel)()
	if err := c.env.Clock.Until(ctx, t); err != nil && (c.ctx.Err() != nil || answered.Err() == nil) {
		c.stopIfInterrupted()
		c.stop(Outcome{Verdict: report.Error, Reason: "waiting in the target's time: " + c.env.Secrets.Redact(err.Error())})
	}
	if c.journal != nil {
		c.journal.FinishedWaits = c.journal.waits
	}
}

func (c *C) stopIfInterrupted() {
	if c.ctx.Err() != nil {
		c.stop(interrupted(c.journal))
	}
}

// interrupted is the outcome of an interrupted case. A resumed case stays deferred.
func interrupted(j *Journal) Outcome {
	if j != nil && !j.Due.IsZero() {
		return Outcome{Verdict: report.Skip, Code: report.SkipDeferred, Reason: "interrupted: resume it again"}
	}
	return Outcome{Verdict: report.Error, Reason: "interrupted"}
}

// Pending is a request in flight.
type Pending struct {
	c        *C
	cancel   context.CancelFunc
	answered context.Context // ends when the answer has arrived
	exchange *wire.Exchange
	arrived  time.Time     // the latest time at which the answer may have arrived
	sent     chan struct{} // is closed when the request is written
}

// Start sends a request to the job API without awaiting the answer. The suite next waits, or advances the clock, only after the request is written.
func (c *C) Start(method, path string, body any, o ...Option) *Pending {
	ctx, cancel := context.WithCancel(c.requests)
	answered, arrive := context.WithCancel(context.WithoutCancel(c.ctx))
	p := &Pending{c: c, cancel: cancel, answered: answered, sent: make(chan struct{})}
	r := c.request(method, c.jobURL(c.Endpoint, path), body, o)
	index := c.nextExchange()
	markSent := sync.OnceFunc(func() { close(p.sent) })
	if !r.Stalled {
		c.started = append(c.started, p)
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { markSent() }})
	go func() {
		defer arrive()
		defer markSent()
		p.exchange = c.exchange(traced, index, r)
		if p.arrived = p.exchange.Received; c.journal == nil { // a journal has the time for the resumed case, too
			p.arrived = c.env.Clock.Latest()
		}
	}()
	return p
}

// WaitUntilSent waits until Start's requests are written or failed, so that no advance of the clock overtakes them.
func (c *C) WaitUntilSent() {
	timeout := time.After(patience)
	for _, p := range c.started {
		select {
		case <-p.sent:
		case <-timeout:
			return
		}
	}
}

// patience is how long, in real time, an effect that doesn't wait for the target's clock may take.
const patience = 3 * time.Second

func (p *Pending) Answered() bool { return p.answered.Err() != nil }

// AnsweredWithin waits for the answer, in real time, and reports whether it has arrived.
func (p *Pending) AnsweredWithin(patience time.Duration) bool {
	select {
	case <-p.answered.Done():
	case <-time.After(patience):
	}
	return p.Answered()
}

// TransitTime is how long, in real time, an answer may take to arrive after it was sent.
const TransitTime = 5 * time.Millisecond

// Until waits until the target's time t, or until the answer arrives. Other cases run meanwhile.
func (p *Pending) Until(t time.Time) { p.c.untilAnswered(p.answered, t) }

// Sleep waits for a duration in the target's time, or until the answer arrives.
func (p *Pending) Sleep(d time.Duration) { p.Until(p.c.Now().Add(d)) }

// ExpectHeld expects that no answer arrived before a time in the past.
func (p *Pending) ExpectHeld(until time.Time) {
	if !p.AnsweredWithin(TransitTime) || !p.arrived.Before(until) {
		return
	}
	took := p.exchange.Received.Sub(p.exchange.Sent).Round(time.Millisecond)
	p.c.failWith(p.exchange, fmt.Sprintf("an answer after %s: %s", took, p.c.describeAnswer(p.exchange)), fmt.Sprintf("no answer within %s", until.Sub(p.exchange.Sent).Round(time.Second)))
}

// Answer returns the answer, which should have arrived by now.
func (p *Pending) Answer() *Answer {
	wait := 10 * time.Second // on a busy machine
	if !p.c.Target.Local {
		wait = 30 * time.Second
	}
	if p.AnsweredWithin(wait) {
		return p.c.answer(p.exchange)
	}
	p.Abort()
	p.c.failWith(p.exchange, "no answer yet", "an answer by now")
	return nil
}

func (p *Pending) Abort() {
	p.cancel()
	<-p.answered.Done()
}

// ControlsClock reports whether only the suite advances the target's clock, and Target.Lateness grants no
// lateness. Limits are then judged to the second.
func (c *C) ControlsClock() bool {
	return (c.Target.ClockStopped || c.Target.Virtual) && c.Target.Lateness == 0
}

const (
	exactEarly = 400 * time.Millisecond // an effect more than this before its limit is too early
	exactLate  = 900 * time.Millisecond // a deployment may check the limits of jobs once a second
	// maxSweepDelay is how late a deployment may check the limits of jobs, unless Target.Lateness is set.
	maxSweepDelay = 5 * time.Second
)

// Grace is how late a timed effect may come.
func (c *C) Grace() time.Duration { return c.LateMargin(c.Target.Grace()) }

// LateMargin is how late an effect may be: exactLate if the suite controls the clock, and wide otherwise.
func (c *C) LateMargin(wide time.Duration) time.Duration { return c.margin(exactLate, wide) }

// EarlyMargin is how much before its limit an effect may happen: exactEarly if the suite controls the clock, and
// wide otherwise.
func (c *C) EarlyMargin(wide time.Duration) time.Duration { return c.margin(exactEarly, wide) }

func (c *C) margin(exact, wide time.Duration) time.Duration {
	if c.ControlsClock() {
		return exact
	}
	return wide
}

// sweepMargin is how long after its limit a job may live, since limits may be checked periodically.
func (c *C) sweepMargin() time.Duration {
	switch {
	case c.ControlsClock():
		return maxSweepDelay + exactLate
	case c.Target.Lateness > 0:
		return c.Target.Lateness
	}
	return maxSweepDelay + c.Target.Grace()
}

// UntilEffective waits until a ttl, a retention or an execution time-out must have taken effect.
func (c *C) UntilEffective(limit time.Time) { c.Until(limit.Add(c.sweepMargin())) }

// JudgeBy judges the effect of a ttl, a retention or an execution time-out. check only reads. If the suite
// controls the clock, a late effect is a warning, and an effect later than sweepMargin is a failure.
func (c *C) JudgeBy(limit time.Time, check func()) {
	if c.ControlsClock() {
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
