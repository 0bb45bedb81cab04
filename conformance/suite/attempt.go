package suite

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Attempt is one run of a case.
type Attempt struct {
	Outcome
	Started  time.Time // by the target's clock
	Duration time.Duration
	Trace    []*wire.Exchange
	Leaks    []string
	// Script returns a shell script with the requests of the case, up to an exchange.
	Script func(last *wire.Exchange) string
	// Requests is the number of requests, except requests for fixtures.
	Requests int
}

// Try runs a case once and deletes the objects that it created. unspec says that the
// description leaves the clause open: the outcome is an observation, and fails only if an
// answer is a server error.
//
// With a journal, a case that would wait for too long is deferred and its objects stay.
// With the journal of a deferred case, it resumes.
func Try(ctx context.Context, e *env.Env, testCase *Case, unspec bool, journal *Journal) (a Attempt) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := e.Clock.Begin(ctx); err != nil {
		a.Outcome = Outcome{Verdict: report.Error, Reason: "interrupted"}
		return a
	}
	defer e.Clock.End()
	c := &C{Case: testCase, ctx: ctx, env: e, startedAt: e.Clock.Now(), journal: journal}
	start := time.Now()
	a.Outcome = c.run(unspec)
	a.LeftOut = c.leftOut
	a.Started, a.Duration, a.Trace = c.startedAt, time.Since(start), c.exchanges()
	a.Requests = c.exchangesBegun - c.fixtureExchanges
	cancel() // cancels requests that are still in flight
	created := c.env.Ledger.Remaining(testCase.ID)
	a.Script = func(last *wire.Exchange) string { return c.scriptTo(last, created) }
	if a.Code == report.SkipDeferred {
		return a
	}
	// Objects are deleted whatever the outcome.
	cleanupCtx, cancelCleanup := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancelCleanup()
	if err := e.DeleteCreated(cleanupCtx, testCase.ID); err != nil {
		a.Leaks = strings.Split(err.Error(), "\n")
	}
	return a
}

func (c *C) run(unspec bool) (o Outcome) {
	defer func() {
		r := recover()
		if s, ok := r.(stop); ok {
			o = s.Outcome
			o.Observed = c.observed
		} else if r != nil {
			o = Outcome{Verdict: report.Error, Reason: fmt.Sprintf("the case panicked: %v\n%s", r, debug.Stack())}
		}
	}()
	c.prepare()
	c.fixtureExchanges = len(c.exchanges())
	c.Case.Run(c)
	switch {
	case unspec && c.observed == "":
		return Outcome{Verdict: report.Error, Reason: "the case observed nothing"}
	case c.warning != nil:
		o = *c.warning
	case unspec:
		o = Outcome{Verdict: report.Observed}
		c.expectNoServerError()
	default:
		o = Outcome{Verdict: report.Pass}
	}
	o.Observed = c.observed
	return o
}

// expectNoServerError fails if an answer is a server error, which is wrong even if the
// description leaves the answer open.
func (c *C) expectNoServerError() {
	for _, x := range c.exchanges() {
		if x.Status > http.StatusInternalServerError || x.Status == http.StatusInternalServerError && !c.crashAllowed {
			c.failWith(x, c.describeAnswer(x), "any answer but a 5xx")
		}
	}
}
