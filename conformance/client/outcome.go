package client

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// scenarioRun is one run of the command in a scenario.
type scenarioRun struct {
	scenario    scenario
	key         string
	exchanges   []*exchange
	result      commandResult
	calls       []call
	volume      string   // id of the existing network volume
	interrupted bool     // the run ended before the scenario
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

// describeEnd describes how the command ended.
func (p *scenarioRun) describeEnd() string {
	switch {
	case p.result.timeout:
		return "it did not end in time"
	case p.result.code < 0:
		return "a signal ended it"
	}
	return fmt.Sprintf("it ended with exit code %d", p.result.code)
}

// prints tells whether the output matches a pattern, ignoring case.
func (p *scenarioRun) prints(pattern string) bool {
	return regexp.MustCompile("(?i)" + pattern).MatchString(p.result.output)
}

// printsNear tells whether the output matches a pattern near one of the subjects.
// "deprecated" by itself may be about anything.
func (p *scenarioRun) printsNear(pattern string, subjects ...string) bool {
	const near = 200 // bytes
	output := strings.ToLower(p.result.output)
	for _, at := range regexp.MustCompile(pattern).FindAllStringIndex(output, -1) {
		around := output[max(0, at[0]-near):min(len(output), at[1]+near)]
		if slices.ContainsFunc(subjects, func(s string) bool { return strings.Contains(around, strings.ToLower(s)) }) {
			return true
		}
	}
	return false
}
