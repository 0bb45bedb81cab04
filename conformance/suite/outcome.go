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
	Code     string         // of a Skip
	By       string         // of a Blocked
	Reason   string
	Observed string
	Failure  *report.Failure
}

// stop ends a case from within.
type stop struct{ Outcome }

func (c *C) stop(o Outcome) { panic(stop{o}) }

// came ends the case: what came is none of what is accepted.
func (c *C) came(x *wire.Exchange, came string, accepted ...string) {
	f := &report.Failure{Accepted: accepted, Came: came, Did: c.did(x), Curl: c.script(x)}
	f.Came = c.env.Secrets.Redact(f.Came)
	c.stop(Outcome{Verdict: report.Fail, Failure: f, Reason: f.Came})
}

// did says what the case did last, up to an exchange.
func (c *C) did(x *wire.Exchange) string {
	trace := c.exchanges()[c.fixtures:]
	if x == nil {
		if len(trace) == 0 {
			return "nothing"
		}
		x = trace[len(trace)-1]
	}
	var before []string
	for _, y := range trace {
		if y == x {
			break
		}
		before = append(before, c.brief(y))
	}
	if n := len(before); n > 3 {
		before = append([]string{"…"}, before[n-3:]...)
	}
	return c.env.Secrets.Redact(strings.Join(append(before, c.brief(x)), ", then "))
}

func (c *C) brief(x *wire.Exchange) string {
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

// told says what an answer was.
func (c *C) told(x *wire.Exchange) string {
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
		text += fmt.Sprintf(", broken off: %v", x.Err)
	}
	return text
}

// Given runs what the case stands on and does not judge: where it fails, the
// case is BLOCKED by the clause that does.
func (c *C) Given(clause string, do func()) {
	if slices.Contains(c.Case.own(), clause) {
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

// Should judges what only should be so: a failure is a WARN, and the case goes
// on.
func (c *C) Should(do func()) {
	if failed := failure(do); failed != nil {
		c.warn(*failed)
	}
}

// Fail ends the case with what came, and what is accepted.
func (c *C) Fail(came string, accepted ...string) { c.came(nil, came, accepted...) }

// Expect fails unless ok.
func (c *C) Expect(ok bool, accepted, came string, args ...any) {
	if !ok {
		c.came(nil, fmt.Sprintf(came, args...), accepted)
	}
}

// Skip ends a case that can't judge here.
func (c *C) Skip(reason string, args ...any) {
	c.stop(Outcome{Verdict: report.Skip, Code: report.SkipFeature, Reason: fmt.Sprintf(reason, args...)})
}

// Inconclusive ends a case that can't tell.
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
