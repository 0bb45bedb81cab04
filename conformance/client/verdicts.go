package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// report fills the report with a result for each clause.
func (j *judge) report(runs []*scenarioRun) {
	j.output = &report.Report{
		Schema: report.Schema, Version: j.Version, Started: j.started, Dialect: "described", Target: report.Target{Local: true},
		Notes: []string{"judged: " + j.secrets.Redact(shellLine(j.Command))},
	}
	if j.layout != nil {
		j.output.Notes = append(j.output.Notes, j.layout.notes...)
	}
	if j.root != "" && j.KeepDirs {
		j.output.Notes = append(j.output.Notes, "the directories of the scenarios are in "+j.root)
	}
	if !slices.ContainsFunc(runs, func(p *scenarioRun) bool { return p.scenario.id == controlScenario }) {
		j.output.Notes = append(j.output.Notes, "the scenario "+controlScenario+" was not selected: whether the client works without faults is not known")
	}
	interrupted := false
	var silent []string // scenarios without a request
	for _, p := range runs {
		interrupted = interrupted || p.interrupted
		if len(p.exchanges) == 0 && !p.interrupted {
			silent = append(silent, p.scenario.id)
		}
		j.output.Requests += int64(len(p.exchanges))
		for _, x := range p.exchanges {
			if _, _, ok := parseJobPath(x.path()); ok && x.isCreation() && x.succeeded() {
				j.output.Jobs++
			}
		}
	}
	if j.output.Requests == 0 && !interrupted {
		j.output.Preflight = "the client sent no request to the scripted deployment: it has to use the URL of GPUCLOUD_BASE_URL or {base_url}"
		if len(runs) > 0 {
			j.output.Preflight += "; " + j.describeRun(runs[0])
		}
	} else {
		if len(silent) > 0 {
			j.output.Notes = append(j.output.Notes, "the client sent no request in the scenarios "+strings.Join(silent, ", "))
		}
		for _, p := range runs {
			if text := j.failedWithoutFault(p); text != "" {
				j.output.Failed = append(j.output.Failed, text)
			}
		}
	}
	for _, c := range j.clauses {
		j.output.Results = append(j.output.Results, j.result(c, runs))
	}
	j.blockWithoutKey()
	j.output.Duration = report.Duration(time.Since(j.started))
	j.output.TargetTime = j.output.Duration
	j.output.Count()
}

// failedWithoutFault says how a client failed in the scenario without faults, "" where
// it did not: other results of a client that fails there mean little.
func (j *judge) failedWithoutFault(p *scenarioRun) string {
	how := ""
	switch succeeded := slices.ContainsFunc(p.exchanges, (*exchange).succeeded); {
	case p.scenario.id != controlScenario || p.interrupted:
		return ""
	case len(p.exchanges) == 0:
		how = "it sent no request"
	case p.result.timeout || p.result.code != 0:
		how = "it failed"
	case !succeeded:
		how = "none of its requests succeeded"
	default:
		return ""
	}
	text := "in the scenario " + controlScenario + ", in which nothing is scripted to fail, " + how + ": " + j.describeRun(p)
	if len(p.unserved) > 0 {
		text += "\nThe scripted deployment does not serve these requests of the client: " + strings.Join(p.unserved, ", ")
	}
	return text + "\nrepeat: " + j.repeatCommand(p.scenario.id, "--keep-dirs ")
}

// result returns the worst result that the scenarios have for a clause.
func (j *judge) result(c clauses.Clause, runs []*scenarioRun) report.Result {
	worst := outcome{verdict: report.Skip, reason: "no scenario judges it"}
	var leftOut []report.Omission
	for _, p := range runs {
		for _, r := range p.scenario.allRules() {
			if r.clause != c.ID {
				continue
			}
			o := r.judge(p)
			if p.interrupted {
				o = inconclusive("the run was interrupted before the end of the scenario %s", p.scenario.id)
			}
			own := slices.ContainsFunc(p.scenario.rules, func(one rule) bool { return one.clause == r.clause })
			if own && p.result.timeout && o.verdict == report.Pass {
				o = inconclusive("in the scenario %s, %s", p.scenario.id, p.describeEnd())
			}
			if own && o.verdict == report.Skip {
				leftOut = append(leftOut, report.Omission{Case: p.scenario.id, Code: report.SkipFeature, Reason: j.secrets.Redact(o.reason)})
			}
			// Of two equal outcomes, that of the clause's own scenario has the best reason.
			better := slices.Index(verdictOrder, o.verdict) < slices.Index(verdictOrder, worst.verdict)
			if worst.run == nil || better || o.verdict == worst.verdict && p.scenario.clause == c.ID && worst.run.scenario.clause != c.ID {
				worst, worst.run = o, p
			}
		}
	}
	res := report.Result{
		Clause: c.ID, Area: c.Area(), Level: string(c.Level), Source: c.Source, Statement: c.Statement, Link: c.Link(),
		Verdict: worst.verdict, Reason: j.secrets.Redact(worst.reason), LeftOut: leftOut,
	}
	if worst.run != nil {
		res.Case = worst.run.scenario.id
	}
	switch worst.verdict {
	case report.Skip:
		res.Code = report.SkipFeature
	case report.Fail:
		if c.Level != suite.Must && !j.Strict {
			res.Verdict = report.Warn
		}
		res.Failure = j.failure(c, worst)
		res.Trace = j.trace(worst.run)
	case report.Inconclusive:
		res.Trace = j.trace(worst.run)
	}
	return res
}

func (j *judge) failure(c clauses.Clause, o outcome) *report.Failure {
	f := *o.failure
	f.Steps = fmt.Sprintf("the scenario %s: %s", o.run.scenario.id, o.run.scenario.description)
	f.Statement = fmt.Sprintf("%s (%s)", c.Statement, c.Source)
	f.Actual = j.secrets.Redact(f.Actual)
	f.Curl = j.repeatCommand(o.run.scenario.id, "")
	return &f
}

// repeatCommand returns the command that repeats a scenario.
func (j *judge) repeatCommand(scenario, options string) string {
	if j.SharedDir {
		options = "--shared-dir "
	}
	return "conformance client " + options + "--select " + scenario + " -- " + j.secrets.Redact(shellLine(j.Command))
}

// blockWithoutKey marks skipped clauses as blocked by CLI-01 where a request lacked
// the key: the deployment refused what they need.
func (j *judge) blockWithoutKey() {
	first := slices.IndexFunc(j.output.Results, func(r report.Result) bool { return r.Clause == "CLI-01" })
	if first < 0 || j.output.Results[first].Verdict != report.Fail {
		return
	}
	for i := range j.output.Results {
		if r := &j.output.Results[i]; r.Verdict == report.Skip {
			r.Verdict, r.Code, r.By = report.Blocked, "", "CLI-01"
		}
	}
}

// exitCode returns the exit code of the program, by the rules of conformance run.
func (j *judge) exitCode(ctx context.Context) int {
	n := j.output.Counts
	switch {
	case ctx.Err() != nil:
		return conformance.ExitInterrupted
	case j.output.Preflight != "":
		return conformance.ExitInconclusive
	case n[report.Fail] > 0 || len(j.output.Failed) > 0:
		return conformance.ExitFailed
	case n[report.Inconclusive] > 0 || j.output.Judged() == 0:
		return conformance.ExitInconclusive
	}
	return conformance.ExitConformant
}

// shellLine quotes a command for a shell.
func shellLine(args []string) string {
	var quoted []string
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`&|;<>()*?[]#~!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		quoted = append(quoted, a)
	}
	return strings.Join(quoted, " ")
}

// maxTrace bounds the bytes of a body in a report.
const maxTrace = 4096

// describeRun says how a command ended, with the end of its output.
func (j *judge) describeRun(p *scenarioRun) string {
	text := p.describeEnd()
	if lines := lastLines(j.secrets.Redact(p.result.output)); lines != "" {
		return text + "; its last output:\n" + lines
	}
	return text + " and printed nothing"
}

func (j *judge) trace(p *scenarioRun) (list []report.Exchange) {
	cut := func(b []byte) string {
		return j.secrets.Cut(b, maxTrace)
	}
	header := func(h map[string][]string) map[string][]string {
		out := maps.Clone(h)
		for name, values := range out {
			shown := make([]string, len(values))
			for i, v := range values {
				shown[i] = j.secrets.Redact(v)
			}
			out[name] = shown
		}
		return out
	}
	for _, x := range p.exchanges {
		e := report.Exchange{
			At: report.Duration(x.received.Sub(p.exchanges[0].received)), Took: report.Duration(x.answered.Sub(x.received)), Started: x.received,
			Method: x.request.Method, URL: j.secrets.Redact(x.request.URL.String()), Sent: header(x.request.Header),
			Body: cut(x.body), BodySize: len(x.body), Status: x.status, Header: header(x.header), Answer: cut(x.answer), Size: len(x.answer),
		}
		if x.status == 0 {
			e.Failed = "the connection was dropped, as the scenario says"
		}
		list = append(list, e)
	}
	return list
}
