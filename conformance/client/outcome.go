package client

import (
	"fmt"
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
	volume      string // id of the existing network volume
	interrupted bool   // the run ended before the scenario
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
	switch e := p.result; {
	case e.timeout:
		return "it did not end in time"
	case e.code < 0:
		return "a signal ended it"
	default:
		return fmt.Sprintf("it ended with exit code %d", e.code)
	}
}

// outputContains tells whether the output contains one of the words, ignoring case.
func (p *scenarioRun) outputContains(words ...string) bool {
	output := strings.ToLower(p.result.output)
	for _, w := range words {
		if strings.Contains(output, w) {
			return true
		}
	}
	return false
}

// outputContainsNear tells whether the output contains one of the words near one of the
// subjects. "deprecated" by itself may be about anything.
func (p *scenarioRun) outputContainsNear(subjects []string, words ...string) bool {
	const near = 200 // bytes
	output := strings.ToLower(p.result.output)
	for _, w := range words {
		for from := 0; ; {
			i := strings.Index(output[from:], w)
			if i < 0 {
				break
			}
			at := from + i
			around := output[max(0, at-near):min(len(output), at+len(w)+near)]
			if slices.ContainsFunc(subjects, func(s string) bool { return strings.Contains(around, strings.ToLower(s)) }) {
				return true
			}
			from = at + len(w)
		}
	}
	return false
}
