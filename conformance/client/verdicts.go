package client

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// report fills the report with a result for each clause.
func (j *judge) report(runs []*scenarioRun) {
	j.output = &report.Report{
		Schema: report.Schema, Version: j.Version, Started: j.started, Dialect: "described", Target: report.Target{Local: true},
		Notes: []string{"judged: " + j.secrets.Redact(shellquote.Join(j.Command...))},
	}
	if i := slices.IndexFunc(runs, func(run *scenarioRun) bool { return run.notes != nil }); i >= 0 {
		j.output.Notes = append(j.output.Notes, runs[i].notes...)
	}
	if j.root != "" && j.KeepDirs {
		j.output.Notes = append(j.output.Notes, "the directories of the scenarios are in "+j.root)
	}
	if !slices.ContainsFunc(runs, func(run *scenarioRun) bool { return run.scenario.ID == controlScenario }) {
		j.output.Notes = append(j.output.Notes, "the scenario "+controlScenario+" was not selected, so it is unknown whether the client works without faults")
	}
	interrupted := false
	var withoutRequests []string // scenarios
	for _, run := range runs {
		interrupted = interrupted || run.interrupted
		if len(run.exchanges) == 0 && !run.interrupted {
			withoutRequests = append(withoutRequests, run.scenario.ID)
		}
		j.output.Requests += int64(len(run.exchanges))
		for _, x := range run.exchanges {
			if x.posts(jobCreation) && x.succeeded() {
				j.output.Jobs++
			}
		}
	}
	if j.output.Requests == 0 && !interrupted {
		j.output.Preflight = "the client sent no request to the deployment: it must use the URL of GPUCLOUD_BASE_URL or {base_url}"
		if len(runs) > 0 {
			j.output.Preflight += "; " + j.describeRun(runs[0])
		}
	} else {
		if len(withoutRequests) > 0 {
			j.output.Notes = append(j.output.Notes, "the client sent no request in the scenarios "+strings.Join(withoutRequests, ", "))
		}
		for _, run := range runs {
			if text := j.failedWithoutFault(run); text != "" {
				j.output.OtherFailures = append(j.output.OtherFailures, text)
			}
		}
	}
	for _, c := range j.clauses {
		j.output.Results = append(j.output.Results, j.result(c, runs))
	}
	j.blockWithoutKey()
	j.output.Duration = report.Duration(time.Since(j.started))
	j.output.TargetTime = j.output.Duration
	j.output.SetCounts()
}

// failedWithoutFault describes how a client failed in the scenario without faults, or
// returns "". If a client fails there, its other results mean little.
func (j *judge) failedWithoutFault(run *scenarioRun) string {
	failure := ""
	switch succeeded := slices.ContainsFunc(run.exchanges, (*exchange).succeeded); {
	case run.scenario.ID != controlScenario || run.interrupted:
		return ""
	case len(run.exchanges) == 0:
		failure = "it sent no request"
	case run.result.timedOut || run.result.code != 0:
		failure = "it failed"
	case !succeeded:
		failure = "none of its requests succeeded"
	default:
		return ""
	}
	text := "in the scenario " + controlScenario + ", which has no faults, " + failure + ": " + j.describeRun(run)
	if refused := run.refusedRequests(); len(refused) > 0 {
		text += "\nThe deployment refused these requests of the client: " + j.secrets.Redact(joinPaths(refused))
	}
	return text + "\nrepeat: " + j.repeatCommand(run.scenario.ID, "--keep-dirs ")
}

// result returns the worst result that the scenarios have for a clause.
func (j *judge) result(c clauses.Clause, runs []*scenarioRun) report.Result {
	worst := suite.Outcome{Verdict: report.Skip, Code: report.SkipFeature, Reason: "no scenario judges it"}
	var worstRun *scenarioRun
	var leftOut []report.Omission
	for _, run := range runs {
		for _, r := range run.scenario.rules() {
			if r.clause != c.ID {
				continue
			}
			o := r.judge(run)
			if run.interrupted {
				o = inconclusive("the run was interrupted before the end of the scenario %s", run.scenario.ID)
			}
			own := run.scenario.judge != nil && run.scenario.clause == c.ID
			if own && run.result.timedOut && o.Verdict == report.Pass {
				o = inconclusive("in the scenario %s, %s", run.scenario.ID, run.describeEnd())
			}
			if own && o.Verdict == report.Skip {
				leftOut = append(leftOut, report.Omission{Case: run.scenario.ID, Code: o.Code, Reason: j.secrets.Redact(o.Reason)})
			}
			// If outcomes are equal, the clause's own scenario has the best reason.
			order := conformance.VerdictRank(o.Verdict, o.Code) - conformance.VerdictRank(worst.Verdict, worst.Code)
			if worstRun == nil || order < 0 || order == 0 && run.scenario.clause == c.ID && worstRun.scenario.clause != c.ID {
				worst, worstRun = o, run
			}
		}
	}
	res := c.Result()
	res.Verdict, res.Code, res.Reason, res.LeftOut = worst.Verdict, worst.Code, j.secrets.Redact(worst.Reason), leftOut
	if worstRun != nil {
		res.Case = worstRun.scenario.ID
	}
	if worst.Verdict == report.Fail {
		if c.Level != suite.Must && !j.Strict {
			res.Verdict = report.Warn
		}
		s := worstRun.scenario
		res.Failure = &report.Failure{
			Steps: fmt.Sprintf("the scenario %s: %s", s.ID, s.Description), Statement: fmt.Sprintf("%s (%s)", c.Statement, c.Source),
			Accepted: j.secrets.RedactAll(worst.Failure.Accepted), Actual: j.secrets.Redact(worst.Failure.Actual), Curl: j.repeatCommand(s.ID, ""),
		}
	}
	if worst.Verdict == report.Fail || worst.Verdict == report.Inconclusive {
		res.Trace = worstRun.trace(&j.secrets)
	}
	return res
}

func (j *judge) repeatCommand(scenario, options string) string {
	if j.SharedDir {
		options = "--shared-dir "
	}
	if j.APIVersion != defaultVersion {
		options += "--api-version " + j.APIVersion + " "
	}
	if j.Strict {
		options += "--strict "
	}
	if j.Timeout != defaultTimeout {
		options += "--timeout " + j.Timeout.String() + " "
	}
	if j.Jobrunner != "" {
		options += "--jobrunner " + shellquote.Join(j.Jobrunner) + " "
	}
	return "conformance client " + options + "--select " + scenario + " -- " + j.secrets.Redact(shellquote.Join(j.Command...))
}

// blockWithoutKey changes skipped clauses to blocked by CLI-01 if a request was refused because it lacked the key.
func (j *judge) blockWithoutKey() {
	first := slices.IndexFunc(j.output.Results, func(r report.Result) bool { return r.Clause == "CLI-01" })
	if first < 0 || j.output.Results[first].Verdict != report.Fail {
		return
	}
	for i := range j.output.Results {
		if r := &j.output.Results[i]; r.Verdict == report.Skip {
			r.Verdict, r.Code, r.BlockedBy = report.Blocked, "", "CLI-01"
		}
	}
}

func (j *judge) describeRun(run *scenarioRun) string {
	text := run.describeEnd()
	if lines := lastLines(j.secrets.Redact(run.result.output)); lines != "" {
		return text + "; its last output:\n" + lines
	}
	return text + " and printed nothing"
}

func (run *scenarioRun) trace(hide *wire.Secrets) []report.Exchange {
	var list []*wire.Exchange
	for _, x := range run.exchanges {
		list = append(list, &x.Exchange)
	}
	if list == nil {
		return nil
	}
	return conformance.Trace(hide, list[0].Sent, list)
}

// refusedRequests returns the requests that the deployment refused. The scenario must inject no faults.
func (run *scenarioRun) refusedRequests() (list []string) {
	for _, x := range run.exchanges {
		if x.Status >= http.StatusBadRequest {
			list = append(list, fmt.Sprintf("%s (%d)", x.line(), x.Status))
		}
	}
	return list
}

type scenarioRun struct {
	scenario    Scenario
	key         string
	exchanges   []*exchange
	result      commandResult
	calls       []call
	volume      string   // id of the existing network volume
	interrupted bool     // the run ended before the scenario's end
	notes       []string // about the copied directory
}

// passed is the outcome of a rule that is satisfied.
var passed = suite.Outcome{Verdict: report.Pass}

// skipped is the outcome of a rule whose situation did not occur.
func skipped(reason string) suite.Outcome {
	return suite.Outcome{Verdict: report.Skip, Code: report.SkipFeature, Reason: reason}
}

func inconclusive(format string, args ...any) suite.Outcome {
	return suite.Outcome{Verdict: report.Inconclusive, Reason: fmt.Sprintf(format, args...)}
}

// violated is a failure with the actual behaviour and the accepted alternatives.
func violated(actual string, accepted ...string) suite.Outcome {
	return suite.Outcome{Verdict: report.Fail, Reason: actual, Failure: &report.Failure{Accepted: accepted, Actual: actual}}
}

func (run *scenarioRun) describeEnd() string {
	switch {
	case run.result.timedOut:
		return "it did not end in time"
	case run.result.code < 0:
		return "a signal ended it"
	}
	return fmt.Sprintf("it ended with exit code %d", run.result.code)
}

// prints reports whether the output matches a pattern, ignoring case.
func (run *scenarioRun) prints(pattern string) bool {
	return regexp.MustCompile("(?i)" + pattern).MatchString(run.result.output)
}

// printsNear reports whether the output matches near a subject: "deprecated" by itself may be about anything.
func (run *scenarioRun) printsNear(pattern string, subjects ...string) bool {
	const near = 200 // bytes
	output := strings.ToLower(run.result.output)
	for _, at := range regexp.MustCompile(pattern).FindAllStringIndex(output, -1) {
		around := output[max(0, at[0]-near):min(len(output), at[1]+near)]
		if slices.ContainsFunc(subjects, func(s string) bool { return strings.Contains(around, strings.ToLower(s)) }) {
			return true
		}
	}
	return false
}
