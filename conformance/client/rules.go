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
		problem := "with another key"
		switch scheme, _, hasScheme := strings.Cut(x.Request.Header.Get("Authorization"), " "); {
		case scheme == "":
			problem = "without the header Authorization"
		case !hasScheme:
			problem = "without a scheme in Authorization"
		case x.bearer() == "":
			problem = "with the scheme " + scheme + " in Authorization"
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
	known := volumes{byID: map[string]volume{p.volume: {Size: volumeSize}}, deleted: map[string]float64{}}
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
	case !p.prints("shrink|smaller|decrease|reduce|grow|increase|larger|exceed|less than"):
		return inconclusive("the client sent no request for a smaller volume, and %s, but its output says nothing about the size", p.describeEnd())
	}
	return passed
}

// volumes is what a client knows about network volumes.
type volumes struct {
	byID    map[string]volume
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
	return body.Size > 0 && body.Size < v.byID[at[1]].Size
}

// learn records the volumes in an answer, or a deletion.
func (v *volumes) learn(x *exchange) {
	at := volumePath.FindStringSubmatch(x.path)
	if at == nil || !x.succeeded() {
		return
	}
	if x.Request.Method == http.MethodDelete {
		v.deleted[v.byID[at[1]].Name] = v.byID[at[1]].Size
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
			v.byID[found.ID] = found
		}
	}
}

// judgeNameConflictMessage judges CLI-05.
func judgeNameConflictMessage(p *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool {
		return x.posts(uniquePath) && (x.Status == http.StatusBadRequest || x.Status == http.StatusConflict)
	})
	if i < 0 {
		return skipped("no template or registry auth was created")
	}
	const words = "taken|already|exist|unique|duplicate|in use|conflict"
	switch {
	case !p.prints(words):
		return violated("its output doesn't mention the taken name, and "+p.describeEnd(), "an output that mentions the taken name")
	case !p.printsNear(words, "name", textIn(p.exchanges[i].Request.Body, "name")):
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
	const words = "retire|deprecat|sunset|end of life|end-of-life"
	switch {
	case !p.prints(words):
		return violated("its output doesn't mention the retirement", "a warning that version 1 was retired")
	case !p.printsNear(words, "v1", "version 1", "api version", "2026"):
		return inconclusive("its output may be about something other than version 1")
	}
	return passed
}

// judgeExpiredJob judges CLI-09.
func judgeExpiredJob(p *scenarioRun) suite.Outcome {
	return judgeEndOfWait(p, "the 404", func(x *exchange) bool { return x.Status == http.StatusNotFound },
		0, "404|not found|expired|gone|no longer|no job", "that the job no longer exists")
}

// judgeCancelledJob judges CLI-10.
func judgeCancelledJob(p *scenarioRun) suite.Outcome {
	return judgeEndOfWait(p, "CANCELLED", func(x *exchange) bool { return textIn(x.Body, "status") == suite.Cancelled },
		furtherReads, "cancel", "about the cancellation")
}

// furtherReads is how many reads don't count as polling. A client may fetch the output of a
// finished job, or read it again for another reason.
const furtherReads = 2

// judgeEndOfWait judges that a client stops waiting for a job after an answer that ends the
// wait, and that it fails or prints a message. It may read the job a few more times.
func judgeEndOfWait(p *scenarioRun, answer string, ends func(*exchange) bool, furtherReads int, words, message string) suite.Outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return x.jobID() != "" && ends(x) })
	if i < 0 {
		return skipped("no client waited for a job")
	}
	reads := 0
	for _, x := range p.exchanges[i+1:] {
		if x.jobID() == p.exchanges[i].jobID() {
			reads++
		}
	}
	switch {
	case reads > furtherReads:
		return violated(fmt.Sprintf("after %s, the job was requested %d more times", answer, reads), "no further request for the job")
	case p.result.timeout:
		return violated(p.describeEnd(), "an exit soon after "+answer)
	case p.result.code == 0 && !p.prints(words):
		return violated("it exited with code 0 and without a message", "another exit code, or a message "+message)
	}
	return passed
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
