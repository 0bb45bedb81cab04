package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// bearerOnEveryCall: CLI-01.
func bearerOnEveryCall(p *play) outcome {
	if len(p.exchanges) == 0 {
		return unused("no request came")
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
		return failing(fmt.Sprintf("%s came %s", requestLine(x), how), "Authorization: Bearer and the key, on every request")
	}
	return passed
}

// receiverAnswers200: CLI-03.
func receiverAnswers200(p *play) outcome {
	if len(p.calls) == 0 {
		return unused("the command submitted no job with a webhook: it is no receiver")
	}
	for _, c := range p.calls {
		switch {
		case c.err != nil:
			return failing("the call of the webhook failed: "+c.err.Error(), "200")
		case c.status != http.StatusOK:
			return failing(fmt.Sprintf("the webhook was answered %d, so it is called again", c.status), "200")
		}
	}
	return passed
}

// shrinkRefused: CLI-04.
func shrinkRefused(p *play) outcome {
	seen := false
	for _, x := range p.exchanges {
		if x.shrinks {
			return failing(requestLine(x)+" asks for a smaller network volume", "no request, and a word on why")
		}
		k, _, ok := kindAt(x.path())
		seen = seen || ok && k.name == volumes && x.success()
	}
	switch {
	case !seen:
		return unused("no network volume was made or read")
	case p.ending.code == 0:
		return unused("the command never wanted a smaller network volume: it asked for none, and was content")
	case !p.says("shrink", "smaller", "decrease", "reduce", "grow", "increase", "larger", "exceed", "less than"):
		return unclear("no request for a smaller volume came, and %s, but its output says nothing about the size", p.ended())
	}
	return passed
}

// takenNameTold: CLI-05.
func takenNameTold(p *play) outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return x.scripted })
	if i < 0 {
		return unused("no template and no registry auth was made")
	}
	words := []string{"taken", "already", "exist", "unique", "duplicate", "in use", "conflict"}
	switch {
	case !p.says(words...):
		return failing("its output has no word of it, and "+p.ended(), "a word on the name that is taken")
	case !p.saysOf([]string{"name", nameIn(p.exchanges[i].body)}, words...):
		return unclear("its output has such a word, but not near the name: whether it means the name can't be told")
	}
	return passed
}

// retirement is the day on which version 1 is retired.
var retirement = time.Date(2026, time.November, 15, 0, 0, 0, 0, time.UTC)

// retirementTold: CLI-06.
func retirementTold(p *play) outcome {
	if !slices.ContainsFunc(p.exchanges, func(x *exchange) bool { return strings.HasPrefix(x.path(), "/v1/") }) {
		return unused("version 1 was not used")
	}
	if p.exchanges[0].came.Before(retirement) {
		return unused("version 1 is not retired yet, by this machine's clock")
	}
	words := []string{"retire", "deprecat", "sunset", "end of life", "end-of-life"}
	switch {
	case !p.says(words...):
		return failing("its output has no word of it", "a warning that version 1 was retired")
	case !p.saysOf([]string{"v1", "version 1", "api version", "2026"}, words...):
		return unclear("its output has such a word, but not near the version: whether it means version 1 can't be told")
	}
	return passed
}

// expiredUnderstood: CLI-09.
func expiredUnderstood(p *play) outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return readsJob(x) && x.status == http.StatusNotFound })
	if i < 0 {
		return unused("no client waited for a job")
	}
	if n := readsOf(p.exchanges[i], p.exchanges[i+1:]); n > 0 {
		return failing(fmt.Sprintf("after the 404, the job was asked for %d times more", n), "no further request for the job")
	}
	if p.ending.timeout {
		return failing(p.ended(), "an end, soon after the 404")
	}
	if p.ending.code == 0 && !p.says("404", "not found", "expired", "gone", "no longer", "no job") {
		return failing("it ended as after a success, without a word", "an exit code that is not 0, or a word on the job that is gone")
	}
	return passed
}

// cancelledUnderstood: CLI-10.
func cancelledUnderstood(p *play) outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return readsJob(x) && statusIn(x.answer) == cancelled })
	if i < 0 {
		return unused("no client waited for a job")
	}
	if n := readsOf(p.exchanges[i], p.exchanges[i+1:]); n > furtherReads {
		return failing(fmt.Sprintf("after CANCELLED, the job was asked for %d times more", n), "an end: no further wait")
	}
	if p.ending.timeout {
		return failing(p.ended(), "an end, soon after CANCELLED")
	}
	if p.ending.code == 0 && !p.says("cancel") {
		return failing("it ended as after a success, without a word", "an exit code that is not 0, or a word on the cancellation")
	}
	return passed
}

// furtherReads are no wait, and no series: a client may fetch the output of a job
// that is over, or look again for another reason.
const furtherReads = 2

// readsJob tells whether a request asks how a job is.
func readsJob(x *exchange) bool {
	name, _, ok := operation(x.path())
	return ok && (name == "status" || name == "stream")
}

// readsOf counts the further requests for the same job.
func readsOf(x *exchange, later []*exchange) (n int) {
	_, id, _ := operation(x.path())
	for _, y := range later {
		if _, same, _ := operation(y.path()); readsJob(y) && same == id {
			n++
		}
	}
	return n
}

// noSecretShown: CLI-11.
func noSecretShown(p *play) outcome {
	used := false
	for _, x := range p.exchanges {
		used = used || x.bearer() == p.key
		if strings.Contains(x.request.URL.String(), p.key) {
			return failing("the key is in the address of "+requestLine(x), "a key in Authorization alone")
		}
	}
	switch {
	case len(p.ending.leaks) > 0:
		return failing("the key is in "+strings.Join(p.ending.leaks, " and in "), "an output without the key")
	case !used:
		return unused("no request with the key came")
	}
	return passed
}

// requestLine is a request in a few words.
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
