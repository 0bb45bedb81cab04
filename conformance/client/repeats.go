package client

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Borders of the judgement on waits.
const (
	noWait   = 50 * time.Millisecond // a shorter wait is none
	growth   = 1.5                   // of the last wait over the first: it grows, whatever the jitter
	constant = 1.25                  // of the longest over the shortest: it does not, but for what a machine adds
	late     = 10 * time.Millisecond // that a clock may go wrong in a second
)

// backsOff: CLI-02.
func backsOff(p *play) outcome {
	waits, ok := waitsAfter429(p)
	if !ok {
		return unused("no request came")
	}
	return judgeWaits(waits)
}

// judgeWaits tells a back-off by the waits before further tries.
func judgeWaits(waits []time.Duration) outcome {
	const accepted = "a further try after a wait, and each wait longer than the one before"
	if len(waits) == 0 {
		return failing("the request that was answered 429 was not tried again", accepted)
	}
	sorted := slices.Sorted(slices.Values(waits))
	shortest, longest, median := sorted[0], sorted[len(sorted)-1], sorted[len(sorted)/2]
	text := "it was tried again after " + list(waits)
	switch {
	case median < noWait:
		return failing(text+": it does not back off", accepted)
	case len(waits) == 1:
		return unclear("%s, and not a second time: whether it backs off exponentially can't be told", text)
	case float64(waits[len(waits)-1]) >= growth*float64(waits[0]):
		return passed
	case len(waits) > 2 && float64(longest) <= constant*float64(shortest):
		return failing(text+": the waits do not grow", accepted)
	}
	return unclear("%s: whether the waits grow can't be told", text)
}

// obeysRetryAfter: CLI-02.
func obeysRetryAfter(p *play) outcome {
	const accepted = "a further try, not before the second of Retry-After is over"
	waits, ok := waitsAfter429(p)
	switch {
	case !ok:
		return unused("no request came")
	case len(waits) == 0:
		return failing("the request that was answered 429 was not tried again", accepted)
	case waits[0] < time.Second-late:
		return failing("it was tried again after "+list(waits[:1]), accepted)
	}
	return passed
}

// waitsAfter429 are the waits from an answer of 429 to the next try; ok tells
// that there was one.
func waitsAfter429(p *play) (waits []time.Duration, ok bool) {
	var last *exchange
	for _, x := range p.exchanges {
		if last != nil && x.same(last) {
			waits = append(waits, x.came.Sub(last.answered))
			last = nil
		}
		if x.status == http.StatusTooManyRequests {
			last, ok = x, true
		}
	}
	return waits, ok
}

func list(waits []time.Duration) string {
	var texts []string
	for _, w := range waits {
		texts = append(texts, w.Round(time.Millisecond).String())
	}
	return strings.Join(texts, ", ")
}

// noRepeatOfCreation: CLI-07. Looking whether it was made settles the matter, so
// that it may be asked for again where it was not. So does deleting what was
// made: nothing is then made twice.
func noRepeatOfCreation(p *play) outcome {
	i := slices.IndexFunc(p.exchanges, func(x *exchange) bool { return x.scripted })
	if i < 0 {
		return unused("nothing was made: no POST that makes something came")
	}
	first, made := p.exchanges[i], p.exchanges[i].status == 0
	listed := false
	for _, x := range p.exchanges[i+1:] {
		listed = listed || listsAt(x, first)
		if deletes(x, first) {
			made, listed = false, true
		}
		switch {
		case !x.same(first):
		case made && listed:
			accepted := []string{"no second " + requestLine(x)}
			if first.lostID != "" {
				accepted = append(accepted, "a DELETE of "+first.lostID+" before it, answered with success")
			}
			return failing(requestLine(x)+" came again, though the list shows that it was made", accepted...)
		case !listed:
			return failing(fmt.Sprintf("%s came again after %s, and nothing in between tells whether it was made", requestLine(x), list([]time.Duration{x.came.Sub(first.answered)})),
				"no second "+requestLine(x), "a list before it, that does not have it")
		}
	}
	return passed
}

// deletes tells whether an exchange deleted what a POST made, whose answer was
// lost.
func deletes(x, post *exchange) bool {
	return x.request.Method == http.MethodDelete && x.success() && post.lostID != "" && x.path() == post.path()+"/"+post.lostID
}

// listsAt tells whether an exchange shows what a POST would have made.
func listsAt(x, post *exchange) bool {
	if !x.reads() || !x.success() {
		return false
	}
	if x.path() == post.path() {
		return true
	}
	name, _, ok := operation(x.path())
	return ok && name == "requests"
}

// noRepeatOfRefused: CLI-08. A read may come again for another reason, so that
// only a series of the same one is a repetition.
func noRepeatOfRefused(p *play) outcome {
	verdict := unused("nothing was answered 4xx")
	var refused []*exchange // requests that change something
	var read *exchange      // the last request, where it was a read that was refused
	series := 0             // that came of it again
	for _, x := range p.exchanges {
		if i := slices.IndexFunc(refused, x.same); i >= 0 {
			return failing(fmt.Sprintf("%s came again after it was answered %d", requestLine(x), refused[i].status), "no second "+requestLine(x))
		}
		if read == nil || !x.same(read) {
			read, series = nil, 0
		} else if series++; series > furtherReads {
			return failing(fmt.Sprintf("%s came %d times more after it was answered %d", requestLine(x), series, read.status), "no series of the same request")
		}
		switch {
		case isRefusal(x.status) && readsJob(x): // waiting for a job is judged by CLI-09
		case isRefusal(x.status) && x.reads():
			read, verdict = x, passed
		case isRefusal(x.status):
			refused, verdict = append(refused, x), passed
		case x.success() && !x.reads():
			refused = nil // what it did may be what the refused request lacked
		}
	}
	return verdict
}

// isRefusal tells statuses that another try does not change.
func isRefusal(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}
