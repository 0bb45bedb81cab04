package client

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Thresholds for waits between retries.
const (
	noWait     = 50 * time.Millisecond // shorter waits don't count
	growth     = 1.5                   // minimum ratio of the last to the first wait if waits grow, despite jitter
	constant   = 1.25                  // maximum ratio of the longest to the shortest wait if waits are constant, on a busy machine
	clockError = 10 * time.Millisecond // the error of a clock per second
)

// judgeBackoff judges CLI-02.
func judgeBackoff(p *scenarioRun) suite.Outcome {
	waits, ok := waitsAfter429(p)
	if !ok {
		return skipped("the client sent no request")
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
	case median < noWait:
		return violated(text+": it does not back off", accepted)
	case len(waits) == 1:
		return inconclusive("%s, but only once, which doesn't show whether the back-off is exponential", text)
	case float64(waits[len(waits)-1]) >= growth*float64(waits[0]):
		return passed
	case len(waits) > 2 && float64(longest) <= constant*float64(shortest):
		return violated(text+": the waits do not grow", accepted)
	}
	return inconclusive("%s, which doesn't show whether the waits grow", text)
}

// judgeRetryAfter judges CLI-02.
func judgeRetryAfter(p *scenarioRun) suite.Outcome {
	const accepted = "a retry, not before the second of Retry-After has passed"
	waits, ok := waitsAfter429(p)
	switch {
	case !ok:
		return skipped("the client sent no request")
	case len(waits) == 0:
		return violated("the request that was answered 429 was not retried", accepted)
	case waits[0] < time.Second-clockError:
		return violated("it was retried after "+formatWaits(waits[:1]), accepted)
	}
	return passed
}

// waitsAfter429 returns the waits from a 429 to the next retry. ok says that there was a
// 429.
func waitsAfter429(p *scenarioRun) (waits []time.Duration, ok bool) {
	var last *exchange
	for _, x := range p.exchanges {
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
func judgeRepeatedCreation(p *scenarioRun) suite.Outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return x.posts(creationPath) && x.isFaulty() })
	if i < 0 {
		return skipped("the client sent no POST that creates an object")
	}
	first, created := p.exchanges[i], p.exchanges[i].Status == 0
	listed := false
	for _, x := range p.exchanges[i+1:] {
		listed = listed || listsCreated(x, first)
		if deletesCreated(x, first) {
			created, listed = false, true
		}
		switch {
		case !x.sameAs(first):
		case created && listed:
			accepted := []string{"no second " + x.line()}
			if id := first.createdID(); id != "" {
				accepted = append(accepted, "a DELETE of "+id+" before it, answered with success")
			}
			return violated(x.line()+" was sent again, although the list shows that the first one created the object", accepted...)
		case !listed:
			return violated(fmt.Sprintf("%s was sent again after %s, without a request in between that shows whether the first one created the object", x.line(), formatWaits([]time.Duration{x.Sent.Sub(first.Received)})),
				"no second "+x.line(), "a list before it that doesn't have the object")
		}
	}
	return passed
}

// deletesCreated tells whether x deletes the object that post created, although the answer
// to post was lost.
func deletesCreated(x, post *exchange) bool {
	return x.Request.Method == http.MethodDelete && x.succeeded() && post.createdID() != "" && x.path == post.path+"/"+post.createdID()
}

// listsCreated tells whether x lists the kind of object that post creates.
func listsCreated(x, post *exchange) bool {
	return x.isRead() && x.succeeded() && (x.path == post.path || post.posts(jobCreationPath) && jobListPath.MatchString(x.path))
}

// judgeRepeatedRefusals judges CLI-08. A client may send a read again for other reasons, so
// only a series of the same read counts as repetition.
func judgeRepeatedRefusals(p *scenarioRun) suite.Outcome {
	verdict := skipped("no request was answered 4xx")
	var refused []*exchange // requests that change something
	var read *exchange      // the last request, if it is a refused read
	series := 0             // consecutive repetitions
	for _, x := range p.exchanges {
		if i := slices.IndexFunc(refused, x.sameAs); i >= 0 {
			return violated(fmt.Sprintf("%s was sent again after it was answered %d", x.line(), refused[i].Status), "no second "+x.line())
		}
		if read == nil || !x.sameAs(read) {
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

// isRefusal tells whether a retry would get the same status.
func isRefusal(status int) bool {
	temporary := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	return status >= 400 && status < 500 && !slices.Contains(temporary, status)
}
