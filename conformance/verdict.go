package conformance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// needs are the needs that a target may not fulfil, with the reason for the skip.
var needs = []struct {
	need  suite.Needs
	there func(t *Target) bool
	words string
}{
	{suite.V1, (*Target).HasV1, "version 1 of the management API is not to be judged"},
	{suite.V2, (*Target).HasV2, "version 2 of the management API is not to be judged"},
	{suite.AnyEndpoint, hasEndpoint, "there is no endpoint: give --endpoint-id, or the management API and --allow create"},
	{suite.OwnEndpoint, managed, "the case needs an endpoint of its own, and there is no management API to make it"},
	{suite.IdleEndpoint, managed, "the case needs an endpoint of its own, and there is no management API to make it"},
	{suite.WideEndpoint, managed, "the case needs an endpoint of its own, and there is no management API to make it"},
	{suite.SecondEndpoint, managed, "the case needs a second endpoint, and there is no management API to make it"},
	{suite.OtherKey, func(t *Target) bool { return t.OtherKey != "" }, "the case needs a valid key without access: set GPUCLOUD_OTHER_API_KEY"},
	{suite.UserKey, func(t *Target) bool { return t.UserKey != "" }, "the case needs another user's key: set GPUCLOUD_USER_API_KEY"},
	{suite.Webhooks, (*Target).Reachable, "the target can't reach this machine: --hook-url says at which address it does"},
	{suite.LocalOnly, func(t *Target) bool { return t.Local }, "the case needs a local target"},
	{suite.Advanced, (*Target).WaitsForFree, "the case needs a clock that can be advanced"},
	{suite.DescribedDialect, func(t *Target) bool { return !t.Live }, "the case is for the dialect of the description"},
	{suite.LiveDialect, func(t *Target) bool { return t.Live }, "the case is for the dialect of the public SDKs"},
}

func hasEndpoint(t *Target) bool { return t.Endpoint != "" || managed(t) }
func managed(t *Target) bool     { return t.HasV1() || t.HasV2() }

// creatableNeeds are the needs that the suite fulfils by creating endpoints.
const creatableNeeds = suite.OwnEndpoint | suite.IdleEndpoint | suite.WideEndpoint | suite.SecondEndpoint

// skipReason returns why a case does not run.
func (r *run) skipReason(c *suite.Case, refused string) (o suite.Outcome, no bool) {
	skip := func(code, reason string) (suite.Outcome, bool) {
		return suite.Outcome{Verdict: report.Skip, Code: code, Reason: reason}, true
	}
	if refused != "" {
		return suite.Outcome{Verdict: report.Blocked, By: "preflight", Reason: refused}, true
	}
	for _, n := range needs {
		if c.Needs&n.need != 0 && !n.there(&r.Target) {
			return skip(report.SkipFeature, n.words)
		}
	}
	if c.Needs.Has(suite.Advanced) && r.Defer != nil && r.Target.Advance == nil {
		return skip(report.SkipFeature, "the case needs a clock that can be advanced, and the run puts off what waits")
	}
	if c.Operations != nil && !slices.ContainsFunc(c.Operations, func(op string) bool { return !slices.Contains(r.Target.Unserved, op) }) {
		return skip(report.SkipUnserved, "the deployment does not serve it: "+strings.Join(c.Operations, ", "))
	}
	if missing := r.allowNeeded(c) &^ r.Allow; missing != 0 {
		return skip(report.SkipAllow, "it would "+allowWords(missing)+": --allow "+missing.String())
	}
	if !r.Target.WaitsForFree() && c.WaitTime > r.MaxWait && !r.deferrable(c) {
		return skip(report.SkipBudget, fmt.Sprintf("it waits for longer than --max-wait %s: --defer", r.MaxWait))
	}
	return o, false
}

// allowNeeded returns what a case does to the target, including its fixtures.
func (r *run) allowNeeded(c *suite.Case) suite.Allow {
	a := c.Allow
	if c.Needs&creatableNeeds != 0 || c.Needs.Has(suite.AnyEndpoint) && r.Target.Endpoint == "" {
		a |= suite.Create
	}
	return a
}

func allowWords(a suite.Allow) string {
	var list []string
	for _, x := range suite.Allows {
		if a&x.Allow != 0 {
			list = append(list, x.Words)
		}
	}
	return strings.Join(list, " and ")
}

// resultOf returns the result of a clause: the worst of its cases. A skipped case
// does not count where another one has judged.
func (r *run) resultOf(c clauses.Clause, some []*suite.Case, attempts map[string]suite.Attempt) report.Result {
	res := c.Result()
	res.Verdict, res.Code, res.Reason = report.Skip, report.SkipReason, c.Untestable
	if res.Reason == "" {
		res.Reason = "there is no case"
	}
	ownCase := slices.ContainsFunc(some, func(one *suite.Case) bool { return !one.Supplementary && one.Judges(c.ID) })
	decided := slices.ContainsFunc(some, func(one *suite.Case) bool {
		return one.Decides && one.Judges(c.ID) && attempts[one.ID].Verdict == report.Pass
	})
	first := true
	for _, one := range some {
		if !slices.Contains(one.AllClauses(), c.ID) {
			continue
		}
		a := attempts[one.ID]
		res.LeftOut = append(res.LeftOut, omissions(one, a, c.ID)...)
		if text := r.watch.fault(one.ID); text.actual != "" && (a.Verdict == report.Pass || a.Verdict == report.Blocked) {
			a.Outcome = suite.Outcome{Verdict: report.Fail, Reason: text.actual, Failure: &report.Failure{Steps: text.steps, Actual: text.actual, Curl: r.scriptOf(text.x, attempts)}}
		}
		onTheWay := !one.Judges(c.ID) && ownCase
		if a.Verdict == report.Skip && a.Code != report.SkipDeferred && (one.Supplementary || onTheWay) || a.Verdict == report.Inconclusive && (onTheWay || decided) {
			continue // others judge it
		}
		if slices.Contains(one.GivenClauses, c.ID) {
			a.Outcome = givenOutcome(a.Outcome, c.ID)
		}
		verdict := a.Verdict
		if verdict == report.Fail && c.Level != suite.Must {
			verdict = report.Warn
		}
		if verdict == report.Observed && c.Level != suite.Unspec {
			verdict = report.Pass
		}
		if !first && VerdictRank(verdict, a.Code) >= VerdictRank(res.Verdict, res.Code) {
			continue
		}
		first = false
		res.Case, res.Verdict, res.Code, res.By, res.Reason, res.Observed = one.ID, verdict, a.Code, a.By, a.Reason, a.Observed
		res.Failure, res.Duration, res.Trace, res.Requests = nil, report.Duration(a.Duration), nil, a.Requests
		if a.Failure != nil {
			f := *a.Failure
			f.Statement = fmt.Sprintf("%s (%s)", c.Statement, c.Source)
			res.Failure = &f
		}
		if verdict != report.Pass && verdict != report.Skip {
			res.Trace = Trace(r.env.Secrets, a.Started, a.Trace)
		}
	}
	return res
}

// omissions returns what a case left out of a clause, all of it where it was skipped. A
// case for another dialect leaves out nothing.
func omissions(one *suite.Case, a suite.Attempt, clause string) (list []report.Omission) {
	if a.Verdict == report.Skip && !one.Decides && one.Judges(clause) && one.Needs&(suite.DescribedDialect|suite.LiveDialect) == 0 {
		list = append(list, report.Omission{Case: one.ID, Code: a.Code, Reason: a.Reason})
	}
	for _, reason := range a.LeftOut {
		list = append(list, report.Omission{Case: one.ID, Code: report.SkipFeature, Reason: reason})
	}
	return list
}

// VerdictRank orders verdicts, the first of which counts. A deferred case may still
// fail.
func VerdictRank(v report.Verdict, code string) int {
	if v == report.Skip && code != report.SkipDeferred {
		return len(report.Verdicts)
	}
	return slices.Index(report.Verdicts, v)
}

// givenOutcome derives from the outcome of a case that of a clause which the case
// judges by Given.
func givenOutcome(o suite.Outcome, clause string) suite.Outcome {
	switch {
	case o.Verdict == report.Blocked && o.By == clause:
		o.Verdict, o.By = report.Fail, ""
	case o.Verdict == report.Fail || o.Verdict == report.Warn:
		o = suite.Outcome{Verdict: report.Pass}
	}
	return o
}

// settleVerdicts applies what needs all results: a case that is blocked by a clause
// that passes is inconclusive, and so is a MUST that is blocked by a weaker clause,
// which fails no run; results of reruns are added, and known deviations marked.
func (r *run) settleVerdicts(repeats map[string]string) {
	verdicts := map[string]report.Verdict{}
	for _, x := range r.report.Results {
		verdicts[x.Clause] = x.Verdict
	}
	bad := []report.Verdict{report.Fail, report.Warn, report.Blocked, report.Error, report.Inconclusive}
	for i := range r.report.Results {
		x := &r.report.Results[i]
		if v, judged := verdicts[x.By]; x.Verdict == report.Blocked && x.By != "preflight" && !slices.Contains(bad, v) {
			x.Verdict = report.Inconclusive
			if judged {
				x.Reason = "what it stands on failed, though " + x.By + " is kept: " + x.Reason
			} else {
				x.Reason = "what it stands on failed: " + x.Reason
			}
		} else if x.Verdict == report.Blocked && v == report.Warn && x.Level == string(suite.Must) {
			x.Verdict = report.Inconclusive
			x.Reason = "it stands on " + x.By + ", which is weaker and not kept: " + x.Reason
		}
	}
	for i := range r.report.Results {
		x := &r.report.Results[i]
		if x.Repeats = repeats[x.Case]; strings.HasPrefix(x.Repeats, "1/") && x.Repeats != "1/1" && x.Level == string(suite.Must) {
			x.Verdict = report.Inconclusive
			x.Reason = "it failed once and then did not: " + x.Reason
		}
	}
	r.report.Stale = r.Known.mark(r.report.Results, time.Now())
}

// rerunFailed reruns failed cases, to see whether they always fail.
func (r *run) rerunFailed(ctx context.Context, attempts map[string]suite.Attempt) map[string]string {
	if r.Reruns == 0 {
		return nil
	}
	var failed []*suite.Case
	for _, one := range casesOf(clauses.All()) {
		if attempts[one.ID].Verdict == report.Fail && r.journalFor(one) == nil {
			failed = append(failed, one)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	counts, runs := map[string]int{}, map[string]int{}
	r.startReruns(len(failed) * r.Reruns)
	defer r.endReruns()
	for range r.Reruns {
		for id, a := range r.runAll(ctx, failed, len(failed)*r.Reruns) {
			if a.Verdict == report.Skip {
				continue // the run's bounds are reached
			}
			runs[id]++
			if a.Verdict != report.Pass && a.Verdict != report.Warn && a.Verdict != report.Observed {
				counts[id]++
			}
		}
	}
	repeats := map[string]string{}
	for _, one := range failed {
		repeats[one.ID] = fmt.Sprintf("%d/%d", counts[one.ID]+1, runs[one.ID]+1)
	}
	return repeats
}

// maxTrace bounds the bytes of a body in a report.
const maxTrace = 4096

// Trace returns exchanges for a report, without secrets. began is when the first one counts as
// sent.
func Trace(secrets *wire.Secrets, began time.Time, exchanges []*wire.Exchange) (list []report.Exchange) {
	hide := secrets.Redact
	cut := func(b []byte) string {
		text := secrets.Cut(b, maxTrace)
		if len(b) > maxTrace {
			text += fmt.Sprintf("… (%d bytes)", len(b))
		}
		return text
	}
	header := func(h http.Header) map[string][]string {
		out := maps.Clone(map[string][]string(h))
		for name, values := range out {
			shown := make([]string, len(values))
			for i, v := range values {
				shown[i] = hide(v)
			}
			out[name] = shown
		}
		return out
	}
	for _, x := range exchanges {
		e := report.Exchange{
			At: report.Duration(x.Sent.Sub(began)), Took: report.Duration(x.Received.Sub(x.Sent)), Started: x.Sent,
			Method: x.Request.Method, URL: hide(x.Request.URL), Sent: header(x.Request.Header), Body: cut(x.Request.Body), BodySize: len(x.Request.Body),
			Status: x.Status, Header: header(x.Header), Answer: cut(x.Body), Size: len(x.Body),
		}
		if x.Err != nil {
			e.Failed = hide(x.Err.Error())
		}
		list = append(list, e)
	}
	return list
}

// watchFault is a failure found by a case that watches all exchanges.
type watchFault struct {
	steps, actual string
	x             *wire.Exchange
}

// scriptOf returns the script of the case that sent an exchange, up to it.
func (r *run) scriptOf(x *wire.Exchange, attempts map[string]suite.Attempt) string {
	for _, a := range attempts {
		if a.Script != nil {
			if text := a.Script(x); text != "" {
				return text
			}
		}
	}
	return x.Request.Curl(r.env.Secrets) // of a rerun, or of what takes down
}

// exchangeLine is a short form of an exchange.
func exchangeLine(x *wire.Exchange, hide *wire.Secrets) string {
	return fmt.Sprintf("%d %s", x.Status, strings.TrimSpace(hide.Cut(x.Body, 300)))
}
