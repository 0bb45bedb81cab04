package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// judgeBearerToken judges CLI-01.
func judgeBearerToken(p *scenarioRun) suite.Outcome {
	if len(p.exchanges) == 0 {
		return skipped("the client sent no request")
	}
	for _, x := range p.exchanges {
		if x.bearer() == p.key {
			continue
		}
		problem := "without the header Authorization"
		if scheme, _, hasScheme := strings.Cut(x.Request.Header.Get("Authorization"), " "); hasScheme && x.bearer() == "" {
			problem = "with the scheme " + scheme + " in Authorization"
		} else if hasScheme {
			problem = "with another key"
		} else if scheme != "" {
			problem = "without a scheme in Authorization"
		}
		return violated(fmt.Sprintf("%s was sent %s", x.line(), problem), "Authorization: Bearer and the key, on every request")
	}
	return passed
}

// judgeWebhookReceiver judges CLI-03.
func judgeWebhookReceiver(p *scenarioRun) suite.Outcome {
	if len(p.calls) == 0 {
		return skipped("the command submitted no job with a webhook")
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

// judgeShrink judges CLI-04.
func judgeShrink(p *scenarioRun) suite.Outcome {
	seen := false
	known := volumes{sizes: map[string]float64{p.volume: volumeSize}, names: map[string]string{}, deleted: map[string]float64{}}
	for _, x := range p.exchanges {
		if known.shrinks(x) {
			return violated(x.line()+" requests a smaller network volume", "no request, and an output that says why")
		}
		known.learn(x)
		seen = seen || volumePath.MatchString(x.path) && x.succeeded()
	}
	switch {
	case !seen:
		return skipped("no network volume was created or read")
	case p.result.code == 0:
		return skipped("the command did not try to shrink a network volume: it sent no such request and succeeded")
	case !p.outputContains("shrink", "smaller", "decrease", "reduce", "grow", "increase", "larger", "exceed", "less than"):
		return inconclusive("the client sent no request for a smaller volume, and %s, but its output says nothing about the size", p.describeEnd())
	}
	return passed
}

// volumes is what a client knows about network volumes.
type volumes struct {
	sizes   map[string]float64 // by id
	names   map[string]string  // by id
	deleted map[string]float64 // sizes by name
}

type volume struct {
	ID, Name string
	Size     float64
}

// shrinks tells whether a request would shrink a volume, or replace it with a smaller one,
// which loses the data.
func (v *volumes) shrinks(x *exchange) bool {
	at := volumePath.FindStringSubmatch(x.path)
	var body volume
	if at == nil || x.isRead() || json.Unmarshal(x.Request.Body, &body) != nil {
		return false
	}
	if at[1] == "" {
		return body.Size < v.deleted[body.Name]
	}
	return body.Size > 0 && body.Size < v.sizes[at[1]]
}

// learn records the volumes in an answer, or a deletion.
func (v *volumes) learn(x *exchange) {
	at := volumePath.FindStringSubmatch(x.path)
	if at == nil || !x.succeeded() {
		return
	}
	if x.Request.Method == http.MethodDelete {
		v.deleted[v.names[at[1]]] = v.sizes[at[1]]
		return
	}
	var single volume
	var list []volume
	var page struct{ NetworkVolumes []volume }
	for _, form := range []any{&single, &list, &page} {
		_ = json.Unmarshal(x.Body, form) // the body has one of the forms
	}
	for _, found := range append(append(list, page.NetworkVolumes...), single) {
		if found.ID != "" {
			v.sizes[found.ID], v.names[found.ID] = found.Size, found.Name
		}
	}
}

// judgeNameConflictMessage judges CLI-05.
func judgeNameConflictMessage(p *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool {
		return x.isCreation() && uniquePath.MatchString(x.path) && (x.Status == http.StatusBadRequest || x.Status == http.StatusConflict)
	})
	if i < 0 {
		return skipped("no template or registry auth was created")
	}
	words := []string{"taken", "already", "exist", "unique", "duplicate", "in use", "conflict"}
	switch {
	case !p.outputContains(words...):
		return violated("its output doesn't mention the taken name, and "+p.describeEnd(), "an output that mentions the taken name")
	case !p.outputContainsNear([]string{"name", textIn(p.exchanges[i].Request.Body, "name")}, words...):
		return inconclusive("its output may be about something other than the name")
	}
	return passed
}

// retirement is the day on which version 1 is retired.
var retirement = time.Date(2026, time.November, 15, 0, 0, 0, 0, time.UTC)

// judgeRetirementWarning judges CLI-06.
func judgeRetirementWarning(p *scenarioRun) suite.Outcome {
	if !slices.ContainsFunc(p.exchanges, func(x *exchange) bool { return strings.HasPrefix(x.path, "/v1/") }) {
		return skipped("version 1 was not used")
	}
	if p.exchanges[0].Sent.Before(retirement) {
		return skipped("version 1 is not retired yet, by this machine's clock")
	}
	words := []string{"retire", "deprecat", "sunset", "end of life", "end-of-life"}
	switch {
	case !p.outputContains(words...):
		return violated("its output doesn't mention the retirement", "a warning that version 1 was retired")
	case !p.outputContainsNear([]string{"v1", "version 1", "api version", "2026"}, words...):
		return inconclusive("its output may be about something other than version 1")
	}
	return passed
}

// judgeExpiredJob judges CLI-09.
func judgeExpiredJob(p *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return readsJob(x) && x.Status == http.StatusNotFound })
	if i < 0 {
		return skipped("no client waited for a job")
	}
	if n := countReads(p.exchanges[i], p.exchanges[i+1:]); n > 0 {
		return violated(fmt.Sprintf("after the 404, the job was requested %d more times", n), "no further request for the job")
	}
	if p.result.timeout {
		return violated(p.describeEnd(), "an exit soon after the 404")
	}
	if p.result.code == 0 && !p.outputContains("404", "not found", "expired", "gone", "no longer", "no job") {
		return violated("it exited with code 0 and without a message", "another exit code, or a message that the job no longer exists")
	}
	return passed
}

// judgeCancelledJob judges CLI-10.
func judgeCancelledJob(p *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return readsJob(x) && textIn(x.Body, "status") == cancelled })
	if i < 0 {
		return skipped("no client waited for a job")
	}
	if n := countReads(p.exchanges[i], p.exchanges[i+1:]); n > furtherReads {
		return violated(fmt.Sprintf("after CANCELLED, the job was requested %d more times", n), "no further wait")
	}
	if p.result.timeout {
		return violated(p.describeEnd(), "an exit soon after CANCELLED")
	}
	if p.result.code == 0 && !p.outputContains("cancel") {
		return violated("it exited with code 0 and without a message", "another exit code, or a message about the cancellation")
	}
	return passed
}

// furtherReads is how many reads don't count as polling. A client may fetch the output of a
// finished job, or read it again for another reason.
const furtherReads = 2

// readsJob tells whether a request reads a job's status.
func readsJob(x *exchange) bool {
	return jobPath.MatchString(x.path)
}

// countReads counts the later requests for the job of x.
func countReads(x *exchange, later []*exchange) (n int) {
	job := jobPath.FindStringSubmatch(x.path)[1]
	for _, y := range later {
		if at := jobPath.FindStringSubmatch(y.path); at != nil && at[1] == job {
			n++
		}
	}
	return n
}

// judgeSecretOutput judges CLI-11.
func judgeSecretOutput(p *scenarioRun) suite.Outcome {
	used := false
	for _, x := range p.exchanges {
		used = used || x.bearer() == p.key
		if strings.Contains(x.Request.URL, p.key) {
			return violated("the key is in the address of "+x.line(), "the key in Authorization only")
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
