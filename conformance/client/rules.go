package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// judgeBearerToken: CLI-01.
func judgeBearerToken(p *scenarioRun) outcome {
	if len(p.exchanges) == 0 {
		return skipped("the client sent no request")
	}
	for _, x := range p.exchanges {
		if x.bearer() == p.key {
			continue
		}
		how := "without an Authorization"
		if scheme, _, two := strings.Cut(x.request.Header.Get("Authorization"), " "); two && x.bearer() == "" {
			how = "with an Authorization of the scheme " + scheme
		} else if two {
			how = "with another key"
		} else if scheme != "" {
			how = "with an Authorization that names no scheme"
		}
		return violated(fmt.Sprintf("%s was sent %s", requestLine(x), how), "Authorization: Bearer and the key, on every request")
	}
	return passed
}

// judgeWebhookReceiver: CLI-03.
func judgeWebhookReceiver(p *scenarioRun) outcome {
	if len(p.calls) == 0 {
		return skipped("the command submitted no job with a webhook: it is no receiver")
	}
	for _, c := range p.calls {
		switch {
		case c.err != nil:
			return violated("the call of the webhook failed: "+c.err.Error(), "200")
		case c.status != http.StatusOK:
			return violated(fmt.Sprintf("the webhook was answered %d, so it is called again", c.status), "200")
		}
	}
	return passed
}

// judgeShrink: CLI-04.
func judgeShrink(p *scenarioRun) outcome {
	seen := false
	for _, x := range p.exchanges {
		if x.shrinks {
			return violated(requestLine(x)+" asks for a smaller network volume", "no request, and a word on why")
		}
		k, _, ok := kindAt(x.path())
		seen = seen || ok && k.name == volumes && x.succeeded()
	}
	switch {
	case !seen:
		return skipped("no network volume was made or read")
	case p.result.code == 0:
		return skipped("the command never wanted a smaller network volume: it asked for none, and was content")
	case !p.outputContains("shrink", "smaller", "decrease", "reduce", "grow", "increase", "larger", "exceed", "less than"):
		return inconclusive("the client sent no request for a smaller volume, and %s, but its output says nothing about the size", p.describeEnd())
	}
	return passed
}

// judgeNameConflictMessage: CLI-05.
func judgeNameConflictMessage(p *scenarioRun) outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return x.scripted })
	if i < 0 {
		return skipped("no template and no registry auth was made")
	}
	words := []string{"taken", "already", "exist", "unique", "duplicate", "in use", "conflict"}
	switch {
	case !p.outputContains(words...):
		return violated("its output has no word of it, and "+p.describeEnd(), "a word on the name that is taken")
	case !p.outputContainsNear([]string{"name", nameIn(p.exchanges[i].body)}, words...):
		return inconclusive("its output has such a word, but not near the name: whether it means the name can't be told")
	}
	return passed
}

// retirement is the day on which version 1 is retired.
var retirement = time.Date(2026, time.November, 15, 0, 0, 0, 0, time.UTC)

// judgeRetirementWarning: CLI-06.
func judgeRetirementWarning(p *scenarioRun) outcome {
	if !slices.ContainsFunc(p.exchanges, func(x *exchange) bool { return strings.HasPrefix(x.path(), "/v1/") }) {
		return skipped("version 1 was not used")
	}
	if p.exchanges[0].received.Before(retirement) {
		return skipped("version 1 is not retired yet, by this machine's clock")
	}
	words := []string{"retire", "deprecat", "sunset", "end of life", "end-of-life"}
	switch {
	case !p.outputContains(words...):
		return violated("its output has no word of it", "a warning that version 1 was retired")
	case !p.outputContainsNear([]string{"v1", "version 1", "api version", "2026"}, words...):
		return inconclusive("its output has such a word, but not near the version: whether it means version 1 can't be told")
	}
	return passed
}

// judgeExpiredJob: CLI-09.
func judgeExpiredJob(p *scenarioRun) outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return readsJob(x) && x.status == http.StatusNotFound })
	if i < 0 {
		return skipped("no client waited for a job")
	}
	if n := countReads(p.exchanges[i], p.exchanges[i+1:]); n > 0 {
		return violated(fmt.Sprintf("after the 404, the job was asked for %d times more", n), "no further request for the job")
	}
	if p.result.timeout {
		return violated(p.describeEnd(), "an end, soon after the 404")
	}
	if p.result.code == 0 && !p.outputContains("404", "not found", "expired", "gone", "no longer", "no job") {
		return violated("it ended as after a success, without a word", "an exit code that is not 0, or a word on the job that is gone")
	}
	return passed
}

// judgeCancelledJob: CLI-10.
func judgeCancelledJob(p *scenarioRun) outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return readsJob(x) && statusIn(x.answer) == cancelled })
	if i < 0 {
		return skipped("no client waited for a job")
	}
	if n := countReads(p.exchanges[i], p.exchanges[i+1:]); n > furtherReads {
		return violated(fmt.Sprintf("after CANCELLED, the job was asked for %d times more", n), "an end: no further wait")
	}
	if p.result.timeout {
		return violated(p.describeEnd(), "an end, soon after CANCELLED")
	}
	if p.result.code == 0 && !p.outputContains("cancel") {
		return violated("it ended as after a success, without a word", "an exit code that is not 0, or a word on the cancellation")
	}
	return passed
}

// furtherReads is how many reads do not count as polling: a client may fetch the
// output of a finished job, or read it again for another reason.
const furtherReads = 2

// readsJob tells whether a request reads a job's status.
func readsJob(x *exchange) bool {
	name, _, ok := parseJobPath(x.path())
	return ok && (name == "status" || name == "stream")
}

// countReads counts the further requests for the same job.
func countReads(x *exchange, later []*exchange) (n int) {
	_, id, _ := parseJobPath(x.path())
	for _, y := range later {
		if _, same, _ := parseJobPath(y.path()); readsJob(y) && same == id {
			n++
		}
	}
	return n
}

// judgeSecretOutput: CLI-11.
func judgeSecretOutput(p *scenarioRun) outcome {
	used := false
	for _, x := range p.exchanges {
		used = used || x.bearer() == p.key
		if strings.Contains(x.request.URL.String(), p.key) {
			return violated("the key is in the address of "+requestLine(x), "a key in Authorization alone")
		}
	}
	switch {
	case len(p.result.leakedIn) > 0:
		return violated("the key is in "+strings.Join(p.result.leakedIn, " and in "), "an output without the key")
	case !used:
		return skipped("the client sent no request with the key")
	}
	return passed
}

// requestLine is the method and the path of a request.
func requestLine(x *exchange) string { return x.request.Method + " " + x.path() }

func nameIn(body []byte) string {
	var o struct{ Name string }
	_ = json.Unmarshal(body, &o) // what is no object has no name
	return o.Name
}

func statusIn(body []byte) string {
	var o struct{ Status any }
	_ = json.Unmarshal(body, &o) // what is no object has no status
	s, _ := o.Status.(string)
	return s
}
