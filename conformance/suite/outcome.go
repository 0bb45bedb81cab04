package suite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Outcome is how one run of a case ended.
type Outcome struct {
	Verdict  report.Verdict // Pass, Fail, Warn, Observed, Skip, Blocked, Inconclusive or Error
	Code     string         // the reason's code, where Verdict is Skip
	By       string         // the clause, where Verdict is Blocked
	Reason   string
	Observed string
	LeftOut  []string // what the case did not judge, and why
	Failure  *report.Failure
}

// stop ends a case from within.
type stop struct{ Outcome }

func (c *C) stop(o Outcome) { panic(stop{o}) }

// failWith fails the case: the actual behaviour is not among the accepted ones.
func (c *C) failWith(x *wire.Exchange, actual string, accepted ...string) {
	f := &report.Failure{Accepted: accepted, Actual: actual, Steps: c.describeSteps(x), Curl: c.scriptSoFar(x)}
	f.Actual = c.env.Secrets.Redact(f.Actual)
	c.stop(Outcome{Verdict: report.Fail, Failure: f, Reason: f.Actual})
}

// describeSteps lists the last requests of the case, up to an exchange.
func (c *C) describeSteps(x *wire.Exchange) string {
	trace := c.exchanges()[c.fixtureExchanges:]
	if x == nil {
		if len(trace) == 0 {
			return "no request"
		}
		x = trace[len(trace)-1]
	}
	var before []string
	for _, y := range trace {
		if y == x {
			break
		}
		before = append(before, c.describeRequest(y))
	}
	if n := len(before); n > 3 {
		before = append([]string{"…"}, before[n-3:]...)
	}
	return c.env.Secrets.Redact(strings.Join(append(before, c.describeRequest(x)), ", then "))
}

func (c *C) describeRequest(x *wire.Exchange) string {
	path := x.Request.URL
	for _, base := range []string{c.env.Target.Queue(), c.env.Target.V2(), c.env.Target.V1()} {
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

// describeAnswer shows the code and the body of an answer.
func (c *C) describeAnswer(x *wire.Exchange) string {
	if x.Status == 0 {
		return fmt.Sprintf("no answer: %v", x.Err)
	}
	body := string(x.Body)
	if len(body) > 400 {
		body = fmt.Sprintf("%s… (%d bytes)", c.env.Secrets.Cut(x.Body, 300), len(x.Body))
	}
	if body == "" {
		body = "(no body)"
	}
	text := fmt.Sprintf("%d %s", x.Status, strings.TrimSpace(body))
	if x.Err != nil {
		text += fmt.Sprintf(", the body was cut off: %v", x.Err)
	}
	return text
}

// Given runs what the case needs and does not judge: where that fails, the case is
// BLOCKED by the clause that judges it.
func (c *C) Given(clause string, do func()) {
	if slices.Contains(c.Case.judgedClauses(), clause) {
		do()
		return
	}
	defer func() {
		r := recover()
		if s, ok := r.(stop); ok && s.Verdict == report.Fail {
			s.Verdict, s.By = report.Blocked, clause
			panic(s)
		}
		if r != nil {
			panic(r)
		}
	}()
	do()
}

// Should judges a SHOULD within the case: a failure is a WARN, and the case goes on.
func (c *C) Should(do func()) {
	if failed := catchFailure(do); failed != nil {
		c.keepWarning(*failed)
	}
}

// Fail fails the case with the actual behaviour and the accepted ones.
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

// leaveOut notes what the case does not judge at this target.
func (c *C) leaveOut(reason string) {
	if !slices.Contains(c.leftOut, reason) {
		c.leftOut = append(c.leftOut, reason)
	}
}

// Thorough tells whether the case may do what costs or loads too much where others use
// the target. If it may not, the clause is partly judged: the report has what was left out.
func (c *C) Thorough(what string) bool {
	if !c.Local() {
		c.leaveOut("only a local target gets " + what)
	}
	return c.Local()
}

// Inconclusive ends a case whose evidence does not suffice.
func (c *C) Inconclusive(reason string, args ...any) {
	c.stop(Outcome{Verdict: report.Inconclusive, Reason: c.env.Secrets.Redact(fmt.Sprintf(reason, args...))})
}

// Observe records what the target does where the description leaves it open, in
// a form that can be compared with another target's: no ids, no times.
func (c *C) Observe(format string, args ...any) {
	if c.observed != "" {
		c.observed += "; "
	}
	c.observed += c.env.Secrets.Redact(fmt.Sprintf(format, args...))
}
