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
	Began time.Time // by the target's clock
	Took  time.Duration
	Trace []*wire.Exchange
	Leaks []string
	// Script is a shell script of all that the case sent, as far as an exchange.
	Script func(last *wire.Exchange) string
	// Requests are those of the case, without its fixtures.
	Requests int
}

// Try runs a case once and takes down what it made. floor says that the clause
// is one that the description leaves open, and an answer that is no answer to
// anybody (a 5xx, HTML) is to be told of.
//
// With a journal, the case is put off where it would wait for too long, and what
// it made stays; with one that it left, it goes on.
func Try(ctx context.Context, e *env.Env, one *Case, floor bool, journal *Journal) (a Attempt) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := e.Clock.Begin(ctx); err != nil {
		a.Outcome = Outcome{Verdict: report.Error, Reason: "interrupted"}
		return a
	}
	defer e.Clock.End()
	c := &C{Case: one, ctx: ctx, env: e, began: e.Clock.Now(), journal: journal}
	start := time.Now()
	a.Outcome = c.run(floor)
	a.Began, a.Took, a.Trace = c.began, time.Since(start), c.exchanges()
	a.Requests = c.places - c.fixtures
	cancel() // requests that the case left open
	made := c.env.Ledger.Left(one.ID)
	a.Script = func(last *wire.Exchange) string { return c.scriptTo(last, made) }
	if a.Code == report.SkipDeferred {
		return a
	}
	// What was made is taken down whatever became of the run.
	down, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer done()
	if err := e.TakeDown(down, one.ID); err != nil {
		a.Leaks = strings.Split(err.Error(), "\n")
	}
	return a
}

func (c *C) run(floor bool) (o Outcome) {
	defer func() {
		r := recover()
		if s, ok := r.(stop); ok {
			o = s.Outcome
			o.Observed = c.observed
		} else if r != nil {
			o = Outcome{Verdict: report.Error, Reason: fmt.Sprintf("the case broke: %v\n%s", r, debug.Stack())}
		}
	}()
	c.prepare()
	c.fixtures = len(c.exchanges())
	c.Case.Run(c)
	switch {
	case floor && c.observed == "":
		return Outcome{Verdict: report.Error, Reason: "the case observed nothing"}
	case c.soft != nil:
		o = *c.soft
	case floor:
		o = Outcome{Verdict: report.Observed}
		c.floor()
	default:
		o = Outcome{Verdict: report.Pass}
	}
	o.Observed = c.observed
	return o
}

// floor is what holds for every answer, also where nothing is said of it.
func (c *C) floor() {
	for _, x := range c.exchanges() {
		if x.Status > http.StatusInternalServerError || x.Status == http.StatusInternalServerError && !c.crashes {
			c.came(x, c.told(x), "any answer but a 5xx")
		}
	}
}
