package client

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// play is one run of the command in a scenario.
type play struct {
	scenario  scenario
	key       string
	exchanges []*exchange
	ending    ending
	calls     []call
	// unserved are requests for what the scripted deployment does not have.
	unserved []string
	// interrupted tells that the run was ended before this scenario was over.
	interrupted bool
}

// outcome is what a rule says.
type outcome struct {
	verdict report.Verdict // PASS, FAIL, INCONCLUSIVE or SKIP
	reason  string
	failure *report.Failure
	play    *play
}

var passed = outcome{verdict: report.Pass}

// unused says that the client did nothing that the rule is about.
func unused(reason string) outcome { return outcome{verdict: report.Skip, reason: reason} }

func unclear(format string, args ...any) outcome {
	return outcome{verdict: report.Inconclusive, reason: fmt.Sprintf(format, args...)}
}

// failing says what came, and what would have been accepted.
func failing(came string, accepted ...string) outcome {
	return outcome{verdict: report.Fail, reason: came, failure: &report.Failure{Accepted: accepted, Actual: came}}
}

// ended is how the command ended, for people.
func (p *play) ended() string {
	switch e := p.ending; {
	case e.timeout:
		return "it did not end in time"
	case e.code < 0:
		return "it was ended by a signal"
	default:
		return fmt.Sprintf("it ended with exit code %d", e.code)
	}
}

// says tells whether one of some words is in the output, in any case.
func (p *play) says(words ...string) bool {
	output := strings.ToLower(p.ending.output)
	for _, w := range words {
		if strings.Contains(output, w) {
			return true
		}
	}
	return false
}

// saysOf tells whether one of some words is in the output near one of some
// subjects: "deprecated" alone may be said of anything.
func (p *play) saysOf(subjects []string, words ...string) bool {
	const near = 200 // bytes
	output := strings.ToLower(p.ending.output)
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

// order is how much a verdict asks for attention: one that a scenario gives goes
// before one that follows here.
var order = []report.Verdict{report.Fail, report.Inconclusive, report.Pass, report.Skip}
