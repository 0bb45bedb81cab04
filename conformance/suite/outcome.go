package suite

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Outcome is the result of one run of a case.
type Outcome struct {
	Verdict   report.Verdict // Pass, Fail, Warn, Observed, Skip, Blocked, Inconclusive or Error
	Code      string         // of the reason, if Verdict is Skip
	BlockedBy string         // the clause, if Verdict is Blocked
	Reason    string
	Observed  string
	LeftOut   []string // reasons why parts weren't judged
	Failure   *report.Failure
}

// stop is the panic value that ends a case.
type stop struct{ Outcome }

func (c *C) stop(o Outcome) { panic(stop{o}) }

// failWith fails the case. x is the failed exchange, or nil for the last one.
func (c *C) failWith(x *wire.Exchange, actual string, accepted ...string) {
	if trace := c.exchanges(); x == nil && len(trace) > 0 {
		c.expectReachable()
		c.expectKeyAccepted(trace[len(trace)-1])
	} else if x != nil {
		c.expectKeyAccepted(x)
	}
	f := &report.Failure{Accepted: c.env.Secrets.RedactAll(accepted), Actual: actual, Steps: c.describeSteps(x), Curl: c.writeScript(c.stepsSoFar(), x, c.env.Ledger.Remaining(c.Case.ID))}
	f.Actual = c.env.Secrets.Redact(f.Actual)
	c.stop(Outcome{Verdict: report.Fail, Failure: f, Reason: f.Actual})
}

// expectReachable ends the case as inconclusive if the target no longer answers, which may explain what didn't happen.
func (c *C) expectReachable() {
	if c.Target.Local {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, streamPatience)
	defer cancel()
	address := cmp.Or(c.Target.Queue(), c.Target.V2(), c.Target.V1()) + "/conf-nothing-is-here"
	if x := c.env.Do(ctx, wire.NewRequest(http.MethodGet, address, c.Target.Key, "")); x.Status == 0 {
		c.stopIfInterrupted()
		c.Inconclusive("the deployment no longer answers: %v", x.Err)
	}
}

// expectKeyAccepted ends the case as inconclusive if the operator's account or key may explain the answer.
func (c *C) expectKeyAccepted(x *wire.Exchange) {
	refused := x.Status == http.StatusUnauthorized || x.Status == http.StatusPaymentRequired || x.Status == http.StatusForbidden
	if refused && !c.Target.Local && x.Request.Header.Get("Authorization") == "Bearer "+c.Target.Key {
		c.Inconclusive("%s with the key of GPUCLOUD_API_KEY, which needs access to everything: %s", c.describeRequest(x), c.describeAnswer(x))
	}
}

// describeSteps lists the last requests of the case, up to x.
func (c *C) describeSteps(x *wire.Exchange) string {
	trace := c.exchanges()[c.fixtureExchanges:]
	if x == nil {
		if len(trace) == 0 {
			return "no request"
		}
		x = trace[len(trace)-1]
	}
	var requests []string
	for _, y := range trace {
		if y == x {
			break
		}
		requests = append(requests, c.describeRequest(y))
	}
	if n := len(requests); n > 3 {
		requests = append([]string{"…"}, requests[n-3:]...)
	}
	return c.env.Secrets.Redact(strings.Join(append(requests, c.describeRequest(x)), ", then "))
}

func (c *C) describeRequest(x *wire.Exchange) string {
	path := x.Request.URL
	for _, base := range []string{c.Target.Queue(), c.Target.V2(), c.Target.V1()} {
		if rest, ok := strings.CutPrefix(path, base+"/"); base != "" && ok {
			path = "/" + rest
			break
		}
	}
	text := x.Request.Method + " " + path
	if b := x.Request.Body; len(b) > 0 && len(b) <= 200 {
		text += " " + string(b)
	} else if len(b) > 200 {
		text += fmt.Sprintf(" %s… (%d bytes)", c.env.Secrets.Cut(b, 120), len(b))
	}
	return text
}

func (c *C) describeAnswer(x *wire.Exchange) string {
	if x.Status == 0 {
		return fmt.Sprintf("no answer: %v", x.Err)
	}
	body := string(x.Body)
	if len(body) > 400 {
		body = fmt.Sprintf("%s… (%d bytes)", c.env.Secrets.Cut(x.Body, 300), len(x.Body))
	}
	text := fmt.Sprintf("%d %s", x.Status, strings.TrimSpace(cmp.Or(body, "(no body)")))
	if x.Err != nil {
		text += fmt.Sprintf(", the body was cut off: %v", x.Err)
	}
	return text
}

// Given runs a step that the case needs, but doesn't judge. If the step fails, its clause BLOCKs the case.
func (c *C) Given(clause string, do func()) {
	if c.Case.Judges(clause) {
		do()
		return
	}
	if failed := catchFailure(do); failed != nil {
		failed.Verdict, failed.BlockedBy = report.Blocked, clause
		c.stop(*failed)
	}
}

// Should judges a SHOULD within the case. A failure is a WARN, and the case continues.
func (c *C) Should(do func()) {
	if failed := catchFailure(do); failed != nil {
		c.keepWarning(*failed)
	}
}

// Fail fails the case with the actual behaviour and the accepted alternatives.
func (c *C) Fail(actual string, accepted ...string) { c.failWith(nil, actual, accepted...) }

// Expect fails the case unless ok.
func (c *C) Expect(ok bool, accepted, actual string, args ...any) {
	if !ok {
		c.failWith(nil, fmt.Sprintf(actual, args...), accepted)
	}
}

// Skip ends a case that can't judge this target.
func (c *C) Skip(reason string, args ...any) {
	c.stop(Outcome{Verdict: report.Skip, Code: report.SkipFeature, Reason: fmt.Sprintf(reason, args...)})
}

func (c *C) SkipIf(condition bool, reason string, args ...any) {
	if condition {
		c.Skip(reason, args...)
	}
}

// leaveOut records a reason why the case judges only a part of the clause.
func (c *C) leaveOut(reason string) {
	if !slices.Contains(c.leftOut, reason) {
		c.leftOut = append(c.leftOut, reason)
	}
}

// IncludeIfLocal reports whether the target is local. If it isn't, the case leaves out a part, since the requests
// would cost too much, or load a shared target too much. Then the report says that the clause is partly judged.
func (c *C) IncludeIfLocal(part string) bool {
	if !c.Target.Local {
		c.leaveOut("only a local target gets " + part)
	}
	return c.Target.Local
}

// Inconclusive ends a case whose evidence doesn't suffice.
func (c *C) Inconclusive(reason string, args ...any) {
	c.stop(Outcome{Verdict: report.Inconclusive, Reason: c.env.Secrets.Redact(fmt.Sprintf(reason, args...))})
}

// Observe records what the target does if the description leaves it open. The text must
// have no ids and times, so that it can be compared with the text of another target.
func (c *C) Observe(format string, args ...any) {
	if c.observed != "" {
		c.observed += "; "
	}
	c.observed += c.env.Secrets.Redact(fmt.Sprintf(format, args...))
}

type Attempt struct {
	Outcome
	Started  time.Time // by the target's clock
	Duration time.Duration
	Trace    []*wire.Exchange
	// Script returns a shell script with the requests of the case, up to an exchange.
	Script func(last *wire.Exchange) string
	// Requests is the number of requests, except requests for fixtures.
	Requests int
}

// Try runs a case once and deletes the objects that it created. unspec says that the
// description leaves the clause open: a case that passes is an observation, or fails if an
// answer is a server error.
//
// With a journal, a case that would wait for too long is deferred and its objects stay.
// With the journal of a deferred case, the case resumes.
func Try(ctx context.Context, e *env.Env, testCase *Case, unspec bool, journal *Journal) (a Attempt) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := e.Clock.Begin(ctx); err != nil {
		a.Outcome = interrupted(journal)
		return a
	}
	defer e.Clock.End()
	requests, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(interruptGrace, cancelRequests) })()
	c := &C{Case: testCase, Target: e.Target, ctx: ctx, requests: requests, env: e, startedAt: e.Clock.Now(), journal: journal}
	start := time.Now()
	a.Outcome = c.run(unspec)
	a.LeftOut = c.leftOut
	a.Started, a.Duration, a.Trace = c.startedAt, time.Since(start), c.exchanges()
	a.Requests = c.exchangesBegun - c.fixtureExchanges
	cancelRequests()
	created := c.env.Ledger.Remaining(testCase.ID)
	a.Script = func(last *wire.Exchange) string { return c.scriptTo(last, created) }
	if a.Code == report.SkipDeferred {
		return a
	}
	if !e.Target.Local && (a.Verdict == report.Fail || a.Verdict == report.Warn) {
		for _, o := range c.refused { // a faulty deployment may have created the object despite its refusal
			_, _ = e.Ledger.Add(o) // if the file can't be written, the ledger in memory suffices
		}
	}
	// Objects are deleted whatever the outcome.
	e.DeleteCreated(context.WithoutCancel(ctx), testCase.ID) // CleanUp tries the remaining objects again
	return a
}

func (c *C) run(unspec bool) (o Outcome) {
	defer func() {
		r := recover()
		if s, ok := r.(stop); ok {
			o = s.Outcome
			o.Observed = c.observed
			c.recordStarted()
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

// expectNoServerError fails for a server error, which is wrong even if the description leaves the answer open. With 501,
// a deployment says that it lacks an operation.
func (c *C) expectNoServerError() {
	for _, x := range c.exchanges() {
		if x.Status > http.StatusNotImplemented || x.Status == http.StatusInternalServerError && !c.crashAllowed {
			c.failWith(x, c.describeAnswer(x), "any answer but a 5xx")
		}
	}
}

// scriptTo returns the script of a finished case up to an exchange of it, or "" for other exchanges.
func (c *C) scriptTo(last *wire.Exchange, created []env.Object) string {
	steps := c.stepsSoFar()
	for i := range steps {
		if steps[i].Exchange == last {
			return c.writeScript(steps[:i+1], last, created)
		}
	}
	return ""
}

func (c *C) stepsSoFar() (list []wire.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.steps {
		list = append(list, *s)
	}
	return list
}

// writeScript returns a shell script that sends the requests of the steps and deletes the created
// objects. failed is the exchange to mark, or nil if the failure isn't about a single one.
func (c *C) writeScript(steps []wire.Step, failed *wire.Exchange, created []env.Object) string {
	var cleanup []Request
	for _, o := range created {
		cleanup = append(cleanup, wire.NewRequest(o.Method, o.URL, c.Target.Key, ""))
	}
	return wire.Script(steps, failed, cleanup, c.env.Secrets)
}
