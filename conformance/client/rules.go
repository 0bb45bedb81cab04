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

// judgeBearerToken: CLI-01.
func judgeBearerToken(p *scenarioRun) suite.Outcome {
	if len(p.exchanges) == 0 {
		return skipped("the client sent no request")
	}
	for _, x := range p.exchanges {
		if x.bearer() == p.key {
			continue
		}
		how := "without an Authorization"
		if scheme, _, two := strings.Cut(x.Request.Header.Get("Authorization"), " "); two && x.bearer() == "" {
			how = "with an Authorization of the scheme " + scheme
		} else if two {
			how = "with another key"
		} else if scheme != "" {
			how = "with an Authorization that names no scheme"
		}
		return violated(fmt.Sprintf("%s was sent %s", x.line(), how), "Authorization: Bearer and the key, on every request")
	}
	return passed
}

// judgeWebhookReceiver: CLI-03.
func judgeWebhookReceiver(p *scenarioRun) suite.Outcome {
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
func judgeShrink(p *scenarioRun) suite.Outcome {
	seen := false
	known := volumes{sizes: map[string]float64{p.volume: volumeSize}, names: map[string]string{}, deleted: map[string]float64{}}
	for _, x := range p.exchanges {
		if known.shrinks(x) {
			return violated(x.line()+" asks for a smaller network volume", "no request, and a word on why")
		}
		known.learn(x)
		seen = seen || volumePath.MatchString(x.path) && x.succeeded()
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

// volumes is what a client knows of network volumes, by id; deleted has sizes by name.
type volumes struct {
	sizes   map[string]float64
	names   map[string]string
	deleted map[string]float64
}

type volume struct {
	ID, Name string
	Size     float64
}

// shrinks tells whether a request would make a volume smaller, or replace it by a smaller one,
// which loses its data.
func (v *volumes) shrinks(x *exchange) bool {
	at := volumePath.FindStringSubmatch(x.path)
	var asked volume
	if at == nil || x.isRead() || json.Unmarshal(x.Request.Body, &asked) != nil {
		return false
	}
	if at[1] == "" {
		return asked.Size < v.deleted[asked.Name]
	}
	return asked.Size > 0 && asked.Size < v.sizes[at[1]]
}

// learn notes the volumes in an answer, and a deletion.
func (v *volumes) learn(x *exchange) {
	at := volumePath.FindStringSubmatch(x.path)
	if at == nil || !x.succeeded() {
		return
	}
	if x.Request.Method == http.MethodDelete {
		v.deleted[v.names[at[1]]] = v.sizes[at[1]]
		return
	}
	var one volume
	var list []volume
	var page struct{ NetworkVolumes []volume }
	for _, form := range []any{&one, &list, &page} {
		_ = json.Unmarshal(x.Body, form) // it has one of the forms
	}
	for _, found := range append(append(list, page.NetworkVolumes...), one) {
		if found.ID != "" {
			v.sizes[found.ID], v.names[found.ID] = found.Size, found.Name
		}
	}
}

// judgeNameConflictMessage: CLI-05.
func judgeNameConflictMessage(p *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool {
		return x.isCreation() && uniquePath.MatchString(x.path) && (x.Status == http.StatusBadRequest || x.Status == http.StatusConflict)
	})
	if i < 0 {
		return skipped("no template and no registry auth was made")
	}
	words := []string{"taken", "already", "exist", "unique", "duplicate", "in use", "conflict"}
	switch {
	case !p.outputContains(words...):
		return violated("its output has no word of it, and "+p.describeEnd(), "a word on the name that is taken")
	case !p.outputContainsNear([]string{"name", textIn(p.exchanges[i].Request.Body, "name")}, words...):
		return inconclusive("its output has such a word, but not near the name: whether it means the name can't be told")
	}
	return passed
}

// retirement is the day on which version 1 is retired.
var retirement = time.Date(2026, time.November, 15, 0, 0, 0, 0, time.UTC)

// judgeRetirementWarning: CLI-06.
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
		return violated("its output has no word of it", "a warning that version 1 was retired")
	case !p.outputContainsNear([]string{"v1", "version 1", "api version", "2026"}, words...):
		return inconclusive("its output has such a word, but not near the version: whether it means version 1 can't be told")
	}
	return passed
}

// judgeExpiredJob: CLI-09.
func judgeExpiredJob(p *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return readsJob(x) && x.Status == http.StatusNotFound })
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
func judgeCancelledJob(p *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return readsJob(x) && textIn(x.Body, "status") == cancelled })
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
	return jobPath.MatchString(x.path)
}

// countReads counts the further requests for the same job.
func countReads(x *exchange, later []*exchange) (n int) {
	job := jobPath.FindStringSubmatch(x.path)[1]
	for _, y := range later {
		if at := jobPath.FindStringSubmatch(y.path); at != nil && at[1] == job {
			n++
		}
	}
	return n
}

// judgeSecretOutput: CLI-11.
func judgeSecretOutput(p *scenarioRun) suite.Outcome {
	used := false
	for _, x := range p.exchanges {
		used = used || x.bearer() == p.key
		if strings.Contains(x.Request.URL, p.key) {
			return violated("the key is in the address of "+x.line(), "a key in Authorization alone")
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
