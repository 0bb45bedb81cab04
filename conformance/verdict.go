package conformance

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// needs has the condition of each need, and the reason for the skip if a target doesn't meet it.
var needs = []struct {
	need   suite.Needs
	isMet  func(t *Target) bool
	reason string
}{
	{suite.V1, (*Target).HasV1, "version 1 of the management API isn't judged"},
	{suite.V2, (*Target).HasV2, "version 2 of the management API isn't judged"},
	{suite.AnyEndpoint, func(t *Target) bool { return t.Endpoint != "" || hasManagementAPI(t) }, "no endpoint is given: set --endpoint-id, or the management API and --allow create"},
	{suite.OwnEndpoint | suite.IdleEndpoint | suite.FiveWorkerEndpoint, hasManagementAPI, "the case creates an endpoint, which needs the management API"},
	{suite.SecondEndpoint, hasManagementAPI, "the case creates a second endpoint, which needs the management API"},
	{suite.OtherKey, func(t *Target) bool { return t.OtherKey != "" }, "the case needs a valid key without access: set GPUCLOUD_OTHER_API_KEY"},
	{suite.UserKey, func(t *Target) bool { return t.UserKey != "" }, "the case needs another user's key: set GPUCLOUD_USER_API_KEY"},
	{suite.Webhooks, (*Target).CanCallSuite, "the target can't reach this machine: set --hook-listen and --hook-url to an address that it reaches"},
	{suite.LocalOnly, func(t *Target) bool { return t.Local }, "the case needs a local target"},
	{suite.AdvanceableClock, (*Target).SkipsTime, "the case needs a clock that can be advanced"},
	{suite.DescribedDialect, func(t *Target) bool { return !t.Live }, "the case is for the dialect of the description"},
}

func hasManagementAPI(t *Target) bool { return t.HasV1() || t.HasV2() }

// creatableNeeds are the needs that the suite fulfils by creating endpoints.
const creatableNeeds = suite.OwnEndpoint | suite.IdleEndpoint | suite.FiveWorkerEndpoint | suite.SecondEndpoint

// skipReason reports whether a case is skipped or blocked, with the outcome that says why.
func (r *run) skipReason(c *suite.Case, preflightError string) (o suite.Outcome, skipped bool) {
	skip := func(code, reason string) (suite.Outcome, bool) {
		return suite.Outcome{Verdict: report.Skip, Code: code, Reason: reason}, true
	}
	if preflightError != "" {
		return suite.Outcome{Verdict: report.Blocked, BlockedBy: "preflight", Reason: preflightError}, true
	}
	for _, n := range needs {
		if c.Needs&n.need != 0 && !n.isMet(&r.Target) {
			return skip(report.SkipFeature, n.reason)
		}
	}
	if c.Needs.Has(suite.AdvanceableClock) && r.Defer != nil && r.Target.Advance == nil {
		return skip(report.SkipFeature, "the case needs a clock that can be advanced, and the run defers cases that wait")
	}
	if missing := r.neededPermission(c) &^ r.Allow; missing != 0 {
		_, descriptions := missing.NamesAndDescriptions()
		return skip(report.SkipAllow, "it would "+strings.Join(descriptions, " and ")+": --allow "+missing.String())
	}
	if !r.Target.SkipsTime() && c.WaitTime > r.MaxWait && !r.deferrable(c) {
		return skip(report.SkipBudget, fmt.Sprintf("it waits for longer than --max-wait %s", r.MaxWait))
	}
	return o, false
}

// neededPermission returns the permission that a case and its fixtures need.
func (r *run) neededPermission(c *suite.Case) suite.Permission {
	needed := c.Allow
	if c.Needs&creatableNeeds != 0 || c.Needs.Has(suite.AnyEndpoint) && r.Target.Endpoint == "" {
		needed |= suite.Create
	}
	return needed
}

// resultOf returns the result of a clause: the worst result of its cases. A skipped case
// doesn't count if another case has judged the clause.
func (r *run) resultOf(clause clauses.Clause, cases []*suite.Case, attempts map[string]suite.Attempt) report.Result {
	res := clause.Result()
	res.Verdict, res.Code, res.Reason = report.Skip, report.SkipUntestable, cmp.Or(clause.Untestable, "the clause has no case")
	hasOwnCase := slices.ContainsFunc(cases, func(c *suite.Case) bool { return !c.Supplementary && c.Judges(clause.ID) })
	hasDecisivePass := slices.ContainsFunc(cases, func(c *suite.Case) bool {
		return c.Decides && c.Judges(clause.ID) && attempts[c.ID].Verdict == report.Pass
	})
	for _, c := range cases {
		if !c.Judges(clause.ID) && !slices.Contains(c.GivenClauses, clause.ID) {
			continue
		}
		a := attempts[c.ID]
		res.LeftOut = append(res.LeftOut, omissions(c, a, clause.ID)...)
		if f := r.watch.fault(c.ID); f.actual != "" && (a.Verdict == report.Pass || a.Verdict == report.Blocked) {
			a.Outcome = suite.Outcome{Verdict: report.Fail, Reason: f.actual, Failure: &report.Failure{Steps: f.steps, Actual: f.actual, Curl: r.scriptOf(f.exchange, attempts)}}
		}
		byGivenOnly := !c.Judges(clause.ID) && hasOwnCase
		if a.Verdict == report.Skip && a.Code != report.SkipDeferred && (c.Supplementary || byGivenOnly) || a.Verdict == report.Inconclusive && (byGivenOnly || hasDecisivePass) {
			continue // other cases judge the clause
		}
		if slices.Contains(c.GivenClauses, clause.ID) {
			a.Outcome = givenOutcome(a.Outcome, clause.ID)
		}
		verdict := a.Verdict
		if verdict == report.Fail && clause.Level != suite.Must {
			verdict = report.Warn
		}
		if verdict == report.Observed && clause.Level != suite.Unspec {
			verdict = report.Pass
		}
		if res.Case != "" && VerdictRank(verdict, a.Code) >= VerdictRank(res.Verdict, res.Code) {
			continue
		}
		res.Case, res.Verdict, res.Code, res.BlockedBy, res.Reason, res.Observed = c.ID, verdict, a.Code, a.BlockedBy, a.Reason, a.Observed
		res.Failure, res.Duration, res.Trace, res.Requests = nil, report.Duration(a.Duration), nil, a.Requests
		if a.Failure != nil {
			f := *a.Failure
			f.Statement = fmt.Sprintf("%s (%s)", clause.Statement, clause.Source)
			res.Failure = &f
		}
		if verdict != report.Pass && verdict != report.Skip {
			res.Trace = Trace(r.env.Secrets, a.Started, a.Trace)
		}
	}
	return res
}

// omissions returns what a case left out of a clause; a skipped case leaves out everything.
// A case for another dialect leaves out nothing.
func omissions(c *suite.Case, a suite.Attempt, clause string) (list []report.Omission) {
	if a.Verdict == report.Skip && !c.Decides && c.Judges(clause) && c.Needs&suite.DescribedDialect == 0 {
		list = append(list, report.Omission{Case: c.ID, Code: a.Code, Reason: a.Reason})
	}
	for _, reason := range a.LeftOut {
		list = append(list, report.Omission{Case: c.ID, Code: report.SkipFeature, Reason: reason})
	}
	return list
}

// VerdictRank returns the rank of a verdict; the lowest rank decides a clause. A deferred
// case may still fail, so it ranks before other skips.
func VerdictRank(v report.Verdict, code string) int {
	if v == report.Skip && code != report.SkipDeferred {
		return len(report.Verdicts)
	}
	return slices.Index(report.Verdicts, v)
}

// givenOutcome returns the outcome for a clause that the case judges by Given. The clause fails only if it
// blocked the case. If the case itself failed, the clause is kept.
func givenOutcome(o suite.Outcome, clause string) suite.Outcome {
	switch {
	case o.Verdict == report.Blocked && o.BlockedBy == clause:
		o.Verdict, o.BlockedBy = report.Fail, ""
	case o.Verdict == report.Fail || o.Verdict == report.Warn:
		o = suite.Outcome{Verdict: report.Pass}
	}
	return o
}

// settleVerdicts applies the rules that need all results. A clause becomes inconclusive if the clause that
// blocks it passes, is skipped or isn't selected. So does a MUST that is blocked by a warning, because a warning alone
// doesn't fail the run. Results of reruns are added, and known deviations marked.
func (r *run) settleVerdicts(repeats map[string]string) {
	verdicts := map[string]report.Verdict{}
	for _, x := range r.report.Results {
		verdicts[x.Clause] = x.Verdict
	}
	blocking := []report.Verdict{report.Fail, report.Warn, report.Blocked, report.Error, report.Inconclusive}
	for i := range r.report.Results {
		x := &r.report.Results[i]
		if v := verdicts[x.BlockedBy]; x.Verdict == report.Blocked && x.BlockedBy != "preflight" && !slices.Contains(blocking, v) {
			x.Verdict = report.Inconclusive
			x.Reason = fmt.Sprintf("a step that belongs to %s (%s) failed: %s", x.BlockedBy, cmp.Or(v, "not selected"), x.Reason)
		} else if x.Verdict == report.Blocked && v == report.Warn && x.Level == string(suite.Must) {
			x.Verdict = report.Inconclusive
			x.Reason = "it depends on " + x.BlockedBy + ", which isn't a MUST and is not kept: " + x.Reason
		}
	}
	for i := range r.report.Results {
		x := &r.report.Results[i]
		// "1/3" means that the case failed only before the reruns, and "1/1" that it wasn't rerun.
		if x.Repeats = repeats[x.Case]; strings.HasPrefix(x.Repeats, "1/") && x.Repeats != "1/1" && x.Verdict == report.Fail {
			x.Verdict = report.Inconclusive
			x.Reason = "it failed once and then passed: " + x.Reason
		}
	}
	r.report.Stale = r.Known.mark(r.report.Results, time.Now())
}

// rerunFailed runs failed cases again. It returns how many runs of each case did not pass, such as "2/3".
func (r *run) rerunFailed(ctx context.Context, attempts map[string]suite.Attempt) map[string]string {
	if r.Reruns == 0 {
		return nil
	}
	var failed []*suite.Case
	for _, c := range casesOf(clauses.All()) {
		if attempts[c.ID].Verdict == report.Fail && r.journalFor(c) == nil {
			failed = append(failed, c)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	failures, runs := map[string]int{}, map[string]int{}
	before := r.usage()
	r.done = 0 // Progress counts the reruns by themselves
	for range r.Reruns {
		for id, a := range r.runAll(ctx, failed, len(failed)*r.Reruns) {
			if a.Verdict == report.Skip {
				continue // the run's bounds are reached
			}
			runs[id]++
			if a.Verdict != report.Pass && a.Verdict != report.Warn && a.Verdict != report.Observed {
				failures[id]++
			}
		}
	}
	reruns := r.usage().Minus(before)
	reruns.Cases = len(failed) * r.Reruns
	r.report.Reruns = &reruns
	repeats := map[string]string{}
	for _, c := range failed {
		repeats[c.ID] = fmt.Sprintf("%d/%d", failures[c.ID]+1, runs[c.ID]+1)
	}
	return repeats
}

// usage returns the usage of the run so far, with the reruns.
func (r *run) usage() report.Usage {
	return report.Usage{
		Duration: report.Duration(time.Since(r.started)), TargetTime: report.Duration(r.env.Clock.Now().Sub(r.targetTime)),
		Requests: r.env.Requests.Load(), Jobs: r.env.Jobs.Load(),
	}
}

// maxShownBody is the number of bytes of a body that a report shows.
const maxShownBody = 4096

// Trace converts exchanges for a report and removes secrets. At is relative to began.
func Trace(secrets *wire.Secrets, began time.Time, exchanges []*wire.Exchange) (list []report.Exchange) {
	hide := secrets.Redact
	cut := func(b []byte) string {
		text := secrets.Cut(b, maxShownBody)
		if len(b) > maxShownBody {
			text += fmt.Sprintf("… (%d bytes)", len(b))
		}
		return text
	}
	header := func(h http.Header) map[string][]string {
		shown := map[string][]string{}
		for name, values := range h {
			for _, v := range values {
				shown[name] = append(shown[name], hide(v))
			}
		}
		return shown
	}
	for _, x := range exchanges {
		e := report.Exchange{
			At: report.Duration(x.Sent.Sub(began)), Took: report.Duration(x.Received.Sub(x.Sent)), Started: x.Sent,
			Method: x.Request.Method, URL: hide(x.Request.URL), RequestHeader: header(x.Request.Header), RequestBody: cut(x.Request.Body), RequestSize: len(x.Request.Body),
			Status: x.Status, ResponseHeader: header(x.Header), ResponseBody: cut(x.Body), ResponseSize: len(x.Body),
		}
		if x.Err != nil {
			e.Error = hide(x.Err.Error())
		}
		list = append(list, e)
	}
	return list
}

// scriptOf returns the script of the case that sent an exchange, up to that exchange.
func (r *run) scriptOf(x *wire.Exchange, attempts map[string]suite.Attempt) string {
	for _, a := range attempts {
		if a.Script != nil {
			if text := a.Script(x); text != "" {
				return text
			}
		}
	}
	return wire.Script([]wire.Step{{Exchange: x}}, x, nil, r.env.Secrets) // a request of a rerun or of the cleanup
}
