package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// judgeBearerToken judges CLI-01.
func judgeBearerToken(run *scenarioRun) suite.Outcome {
	if len(run.exchanges) == 0 {
		return skipped("the client sent no request")
	}
	for _, x := range run.exchanges {
		if x.bearer() == run.key {
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
func judgeWebhookReceiver(run *scenarioRun) suite.Outcome {
	if len(run.calls) == 0 {
		return skipped("the command submitted no job with a webhook")
	}
	for _, c := range run.calls {
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
func judgeShrink(run *scenarioRun) suite.Outcome {
	sawVolume := false
	known := volumes{byID: map[string]volume{run.volume: {Size: volumeSize}}, deleted: map[string]float64{}}
	for i, x := range run.exchanges {
		if known.shrinks(x, run.exchanges[i+1:]) {
			return violated(x.line()+" requests a smaller network volume", "no request, and an output that says why")
		}
		known.record(x)
		sawVolume = sawVolume || volumePath.MatchString(x.path) && x.succeeded()
	}
	switch {
	case !sawVolume:
		return skipped("no network volume was created or read")
	case run.result.code == 0:
		return skipped("the command did not try to shrink a network volume: it sent no such request and succeeded")
	case !run.prints("shrink|smaller|decrease|reduce|grow|increase|larger|exceed|less than"):
		return inconclusive("the client sent no request for a smaller volume, and %s, but its output says nothing about the size", run.describeEnd())
	}
	return passed
}

// volumes records the network volumes that a client has seen.
type volumes struct {
	byID    map[string]volume
	deleted map[string]float64 // sizes by name
}

type volume struct {
	ID, Name string
	Size     float64
	created  bool // by the client
}

// shrinks reports whether a request would shrink a volume, or replace it with a smaller one. A deletion
// counts if the client created a smaller volume of the same name. If it created both, only if the smaller one stays.
func (v *volumes) shrinks(x *exchange, later []*exchange) bool {
	match := volumePath.FindStringSubmatch(x.path)
	if match == nil || x.isRead() {
		return false
	}
	old := v.byID[match[1]]
	if x.Request.Method == http.MethodDelete { // a smaller replacement may have been created before
		return slices.ContainsFunc(slices.Collect(maps.Values(v.byID)), func(o volume) bool {
			return o.created && o.Name == old.Name && o.Size < old.Size && !(old.created && slices.ContainsFunc(later, func(y *exchange) bool { return y.Request.Method == http.MethodDelete && path.Base(y.path) == o.ID }))
		})
	}
	var body volume
	_ = json.Unmarshal(x.Request.Body, &body) // other bodies have no size
	if match[1] == "" {                       // a creation
		return body.Size < v.deleted[body.Name]
	}
	return body.Size > 0 && body.Size < old.Size
}

func (v *volumes) record(x *exchange) {
	match := volumePath.FindStringSubmatch(x.path)
	if match == nil || !x.succeeded() {
		return
	}
	if x.Request.Method == http.MethodDelete {
		gone := v.byID[match[1]]
		v.deleted[gone.Name] = gone.Size
		delete(v.byID, match[1])
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
			found.created = v.byID[found.ID].created || x.Request.Method == http.MethodPost && match[1] == ""
			v.byID[found.ID] = found
		}
	}
}

// judgeNameConflictMessage judges CLI-05.
func judgeNameConflictMessage(run *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(run.exchanges, func(x *exchange) bool {
		return x.posts(uniqueNames) && x.Status/100 == 4 && bytes.Contains(x.Body, []byte("is taken by another")) // the jobrunner's words
	})
	if i < 0 {
		return skipped("no template or registry auth was refused for its name")
	}
	const words = "taken|already|exist|unique|duplicate|in use|conflict"
	switch {
	case !run.prints(words):
		return violated("its output doesn't mention the taken name, and "+run.describeEnd(), "an output that mentions the taken name")
	case !run.printsNear(words, "name", textIn(run.exchanges[i].Request.Body, "name")):
		return inconclusive("its output may be about something other than the name")
	}
	return passed
}

// judgeRetirementWarning judges CLI-06.
func judgeRetirementWarning(run *scenarioRun) suite.Outcome {
	if !slices.ContainsFunc(run.exchanges, func(x *exchange) bool { return strings.HasPrefix(x.path, "/v1/") }) {
		return skipped("version 1 was not used")
	}
	if run.exchanges[0].Sent.Before(suite.RetirementOfV1) {
		return skipped("version 1 is not retired yet, by this machine's clock")
	}
	const words = "retire|deprecat|sunset|end of life|end-of-life"
	switch {
	case !run.prints(words):
		return violated("its output doesn't mention the retirement", "a warning that version 1 was retired")
	case !run.printsNear(words, "v1", "version 1", "api version", "2026"):
		return inconclusive("its output may be about something other than version 1")
	}
	return passed
}

// judgeExpiredJob judges CLI-09.
func judgeExpiredJob(run *scenarioRun) suite.Outcome {
	return judgeEndOfWait(run, "the 404", func(x *exchange) bool { return x.Status == http.StatusNotFound },
		0, "404|not found|expired|gone|no longer|no job", "that the job no longer exists")
}

// judgeCancelledJob judges CLI-10.
func judgeCancelledJob(run *scenarioRun) suite.Outcome {
	return judgeEndOfWait(run, "CANCELLED", func(x *exchange) bool { return textIn(x.Body, "status") == suite.Cancelled },
		furtherReads, "cancel", "about the cancellation")
}

// furtherReads is the number of reads that don't count as polling. A client may fetch the output of
// a finished job, or read it again for another reason.
const furtherReads = 2

// judgeEndOfWait judges that a client stops waiting for a job after an answer that ends the
// wait, and that it fails or prints a message. It may read the job maxReads more times.
func judgeEndOfWait(run *scenarioRun, answer string, endsWait func(*exchange) bool, maxReads int, words, message string) suite.Outcome {
	i := slices.IndexFunc(run.exchanges, func(x *exchange) bool { return x.jobID() != "" && endsWait(x) })
	if i < 0 {
		return skipped("the client didn't wait for a job")
	}
	reads := 0
	for _, x := range run.exchanges[i+1:] {
		if x.jobID() == run.exchanges[i].jobID() {
			reads++
		}
	}
	switch {
	case reads > maxReads:
		return violated(fmt.Sprintf("after %s, the job was requested %d more times", answer, reads), "no further request for the job")
	case run.result.timedOut:
		return violated(run.describeEnd(), "an exit soon after "+answer)
	case run.result.code == 0 && !run.prints(words):
		return violated("it exited with code 0 and without a message", "another exit code, or a message "+message)
	}
	return passed
}

// judgeKeySecrecy judges CLI-11.
func judgeKeySecrecy(run *scenarioRun) suite.Outcome {
	used := false
	for _, x := range run.exchanges {
		used = used || x.bearer() == run.key
		otherHeaders := x.Request.Header.Clone()
		otherHeaders.Del("Authorization")
		for i, text := range []string{x.Request.URL, fmt.Sprint(otherHeaders), string(x.Request.Body)} {
			if strings.Contains(text, run.key) {
				return violated("the key is in "+[]string{"the address", "another header", "the body"}[i]+" of "+x.line(), "the key in Authorization only")
			}
		}
	}
	switch {
	case len(run.result.leakedIn) > 0:
		return violated("the key is in "+strings.Join(run.result.leakedIn, " and in "), "an output without the key")
	case !used:
		return skipped("the client sent no request with the key")
	}
	return passed
}

// Thresholds for waits between retries.
const (
	minMedianWait = 50 * time.Millisecond // a client whose median wait is shorter doesn't back off
	minGrowth     = 1.5                   // ratio of the last to the first wait if waits grow, despite jitter
	maxSpread     = 1.25                  // ratio of the longest to the shortest wait if waits are constant, on a busy machine
	clockError    = 10 * time.Millisecond // how much a clock may be wrong after a second
)

// judgeBackoff judges CLI-02.
func judgeBackoff(run *scenarioRun) suite.Outcome {
	waits, ok := waitsAfter429(run)
	if !ok {
		return skipped("no request was answered 429")
	}
	return judgeWaits(waits)
}

// judgeWaits judges whether the waits before retries are an exponential back-off.
func judgeWaits(waits []time.Duration) suite.Outcome {
	const accepted = "retries after waits that grow"
	if len(waits) == 0 {
		return violated("the request that was answered 429 was not retried", accepted)
	}
	sorted := slices.Sorted(slices.Values(waits))
	shortest, longest, median := sorted[0], sorted[len(sorted)-1], sorted[len(sorted)/2]
	text := "it was retried after " + formatWaits(waits)
	switch {
	case median < minMedianWait:
		return violated(text+": it does not back off", accepted)
	case len(waits) == 1:
		return inconclusive("%s, but only once, which doesn't show whether the back-off is exponential", text)
	case float64(waits[len(waits)-1]) >= minGrowth*float64(waits[0]):
		return passed
	case len(waits) > 2 && float64(longest) <= maxSpread*float64(shortest):
		return violated(text+": the waits do not grow", accepted)
	}
	return inconclusive("%s, which doesn't show whether the waits grow", text)
}

// judgeRetryAfter judges CLI-02.
func judgeRetryAfter(run *scenarioRun) suite.Outcome {
	const accepted = "a retry, not before the second of Retry-After has passed"
	waits, ok := waitsAfter429(run)
	switch {
	case !ok:
		return skipped("no request was answered 429")
	case len(waits) == 0:
		return violated("the request that was answered 429 was not retried", accepted)
	case waits[0] < time.Second-clockError:
		return violated("it was retried after "+formatWaits(waits[:1]), accepted)
	}
	return passed
}

// waitsAfter429 returns the waits from a 429 to the next retry. ok says that there was a 429.
func waitsAfter429(run *scenarioRun) (waits []time.Duration, ok bool) {
	var last *exchange
	for _, x := range run.exchanges {
		if last != nil && x.sameAs(last) {
			waits = append(waits, x.Sent.Sub(last.Received))
			last = nil
		}
		if x.Status == http.StatusTooManyRequests {
			last, ok = x, true
		}
	}
	return waits, ok
}

func formatWaits(waits []time.Duration) string {
	var texts []string
	for _, w := range waits {
		texts = append(texts, w.Round(time.Millisecond).String())
	}
	return strings.Join(texts, ", ")
}

// judgeRepeatedCreation judges CLI-07. A creation may be repeated if a list before it
// doesn't show the object, or after the object was deleted.
func judgeRepeatedCreation(run *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(run.exchanges, func(x *exchange) bool { return x.posts(creation) && x.Status != x.servedStatus })
	if i < 0 {
		return skipped("the client sent no POST that creates an object")
	}
	first := run.exchanges[i]
	created := first.Status == 0 && first.servedStatus/100 == 2 // the connection dropped; a 500 created nothing
	checked := false                                            // the client has looked since: it read a list or deleted the object
	for _, x := range run.exchanges[i+1:] {
		checked = checked || x.isRead() && x.succeeded() && (x.path == first.path || first.posts(jobCreation) && jobListPath.MatchString(x.path))
		if id := first.createdID(); id != "" && x.Request.Method == http.MethodDelete && x.succeeded() && x.path == first.path+"/"+id {
			created, checked = false, true
		}
		switch {
		case !x.sameAs(first):
		case created && checked:
			accepted := []string{"no second " + x.line()}
			if id := first.createdID(); id != "" {
				accepted = append(accepted, "a DELETE of "+id+" before it, answered with success")
			}
			return violated(x.line()+" was sent again, although the list shows that the first one created the object", accepted...)
		case !checked:
			return violated(fmt.Sprintf("%s was sent again after %s, without a request in between that shows whether the first one created the object", x.line(), formatWaits([]time.Duration{x.Sent.Sub(first.Received)})),
				"no second "+x.line(), "a list before it that doesn't have the object")
		}
	}
	return passed
}

// judgeRepeatedRefusals judges CLI-08. A client may send a read again for other reasons, so
// only a series of the same read counts as repetition.
func judgeRepeatedRefusals(run *scenarioRun) suite.Outcome {
	verdict := skipped("no request was answered 4xx")
	var refused []*exchange // requests that change something
	var read *exchange      // the last request, if it is a refused read
	series := 0             // consecutive repetitions
	for _, x := range run.exchanges {
		if i := slices.IndexFunc(refused, x.sameAs); i >= 0 {
			return violated(fmt.Sprintf("%s was sent again after it was answered %d", x.line(), refused[i].Status), "no second "+x.line())
		}
		if read == nil || !x.sameAs(read) || x.succeeded() { // a poll goes on after its first success
			read, series = nil, 0
		} else if series++; series > furtherReads {
			return violated(fmt.Sprintf("%s was sent %d more times after it was answered %d", x.line(), series, read.Status), "no series of the same request")
		}
		switch {
		case isRefusal(x.Status) && x.jobID() != "": // CLI-09 judges waiting for a job
		case isRefusal(x.Status) && x.isRead():
			read, verdict = x, passed
		case isRefusal(x.Status):
			refused, verdict = append(refused, x), passed
		case x.succeeded() && !x.isRead():
			refused = nil // this change may have removed the reason for the refusal
		}
	}
	return verdict
}

// isRefusal reports whether a retry would get the same status.
func isRefusal(status int) bool {
	temporary := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	return status >= 400 && status < 500 && !slices.Contains(temporary, status)
}
