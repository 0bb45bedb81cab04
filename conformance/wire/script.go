package wire

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Step is an exchange of a script.
type Step struct {
	*Exchange
	// Count is how many equal requests were sent, concurrently or one by one. Zero means one.
	Count int
	// Unanswered says that the script ends before the answer arrives.
	Unanswered bool

	failed bool
}

// Script returns a shell script that sends the same requests, in order and with the same
// pauses. It expects the keys in the variables that Secrets names, and reads ids from the
// new answers. failed is the exchange to mark, or nil. cleanup are the requests at the end.
func Script(steps []Step, failed *Exchange, cleanup []Request, secrets *Secrets) string {
	s := scriptWriter{secrets: secrets, names: map[string]bool{}}
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].failed = failed != nil && steps[i].Exchange == failed
	}
	steps = mergeRepeats(steps)
	laterRequests := slices.Clone(cleanup)
	requestsAfter := make([][]Request, len(steps)) // by step
	for i, step := range slices.Backward(steps) {
		requestsAfter[i] = slices.Clone(laterRequests)
		laterRequests = append(laterRequests, step.Request)
	}
	var inFlight []Step
	var lastTime time.Time
	for i, step := range steps {
		if len(inFlight) > 0 && !slices.ContainsFunc(inFlight, func(o Step) bool { return o.Unanswered || o.Received.After(step.Sent) }) {
			s.addLine("wait")
			inFlight = nil
		}
		if gap := step.Sent.Sub(lastTime).Round(time.Second); !lastTime.IsZero() && gap >= time.Second {
			s.addLine(fmt.Sprintf("sleep %d", int(gap.Seconds())))
		}
		concurrent := step.Unanswered || i+1 < len(steps) && step.Received.After(steps[i+1].Sent)
		if step.failed {
			s.addLine("# The answer to this request was not accepted:")
		}
		s.writeStep(step, concurrent, requestsAfter[i])
		if concurrent {
			inFlight = append(inFlight, step)
			lastTime = step.Sent
		} else {
			lastTime = step.Received
		}
	}
	if len(inFlight) > 0 {
		s.addLine("wait")
	}
	if len(cleanup) > 0 {
		s.addLine("# Delete the created objects:")
	}
	for _, r := range cleanup {
		s.addLine(s.curl(r, "-i", ""))
	}
	return strings.Join(append(s.settings, s.lines...), "\n")
}

// mergeRepeats merges consecutive equal steps.
func mergeRepeats(steps []Step) (list []Step) {
	for _, step := range steps {
		step.Count = max(step.Count, 1)
		n := len(list) - 1
		if n < 0 || !list[n].isRepeatedBy(step) {
			list = append(list, step)
			continue
		}
		joined := &Exchange{Request: step.Request, Status: step.Status, Err: step.Err, Sent: list[n].Sent, Received: step.Received}
		if list[n].Received.After(step.Received) {
			joined.Received = list[n].Received
		}
		list[n] = Step{joined, list[n].Count + step.Count, list[n].Unanswered || step.Unanswered, list[n].failed || step.failed}
	}
	return list
}

// isRepeatedBy reports whether the next step is an equal request of a load test, or a later equal read.
func (s Step) isRepeatedBy(next Step) bool {
	a, b := s.Request, next.Request
	equal := a.Method == b.Method && a.URL == b.URL && bytes.Equal(a.Body, b.Body) && maps.EqualFunc(a.Header, b.Header, slices.Equal)
	read := a.Method == http.MethodGet && !s.Unanswered && !next.Unanswered && !s.Received.After(next.Sent)
	return equal && (a.Quiet && b.Quiet || read)
}

type scriptWriter struct {
	secrets  *Secrets
	ids      []secret        // ids that variables of the script hold
	names    map[string]bool // variables of the script
	settings []string        // the first lines
	lines    []string
}

func (s *scriptWriter) addLine(text string) { s.lines = append(s.lines, text) }

// writeStep writes one step. concurrent says that the script doesn't wait for its answer.
func (s *scriptWriter) writeStep(step Step, concurrent bool, laterRequests []Request) {
	timeLimit := ""
	if step.Status == 0 && step.Err != nil { // it was cancelled or had no answer
		timeLimit = fmt.Sprintf(" -m %d", max(int(math.Ceil(step.Received.Sub(step.Sent).Seconds())), 1))
	}
	background := ""
	if concurrent {
		background = " &"
	}
	if step.Count > 1 {
		pause, shown := "", `-w ' %{http_code}\n'`
		if step.Request.Quiet { // the bodies of a load test aren't interesting
			shown = `-o /dev/null -w '%{http_code}\n'`
		}
		if gap := step.Received.Sub(step.Sent) / time.Duration(step.Count); gap >= 500*time.Millisecond && !concurrent {
			pause = fmt.Sprintf("; sleep %d", int(gap.Round(time.Second).Seconds()))
		}
		text := s.curl(step.Request, shown+timeLimit, "")
		if concurrent {
			s.addLine(fmt.Sprintf("for n in $(seq %d); do %s & done", step.Count, text))
			return
		}
		s.addLine(fmt.Sprintf("for n in $(seq %d); do %s%s; done", step.Count, text, pause))
		return
	}
	id, ok := capturableID(step.Exchange)
	known := slices.ContainsFunc(s.ids, func(x secret) bool { return x.value == id })
	if ok && !concurrent && !known && slices.ContainsFunc(laterRequests, func(r Request) bool { return strings.Contains(r.URL+string(r.Body), id) }) {
		name := s.variableName(step.Request)
		s.addLine(name + "=$(" + s.curl(step.Request, "-i"+timeLimit, extractID) + ")")
		s.ids = append(s.ids, secret{id, "$" + name})
		slices.SortStableFunc(s.ids, func(a, b secret) int { return len(b.value) - len(a.value) })
		return
	}
	s.addLine(s.curl(step.Request, "-i"+timeLimit, "") + background)
}

// extractID shows an answer and prints its first id.
const extractID = ` | tee /dev/stderr | grep -o '"id" *: *"[^"]*"' | head -n 1 | cut -d '"' -f 4`

var firstID = regexp.MustCompile(`"id" *: *"([^"]*)"`)

// capturableID returns the id of the answer's object, if it is the id that extractID finds.
func capturableID(x *Exchange) (id string, ok bool) {
	if x.Status/100 != 2 {
		return "", false
	}
	body, err := x.JSON()
	x.ForgetJSON()
	object, _ := body.(map[string]any)
	id, _ = object["id"].(string)
	found := firstID.FindSubmatch(x.Body)
	return id, err == nil && len(id) >= 6 && found != nil && string(found[1]) == id
}

// variableName returns an unused variable name, from the path's last segment, for a created object's id.
func (s *scriptWriter) variableName(r Request) string {
	path, _, _ := strings.Cut(r.URL, "?")
	word := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			return c
		}
		return '_'
	}, path[strings.LastIndexByte(path, '/')+1:])
	name := "ID_" + word
	for n := 2; s.names[name]; n++ {
		name = fmt.Sprintf("ID_%s_%d", word, n)
	}
	s.names[name] = true
	return name
}

// curl returns a command that sends a request. suffix is appended, such as a pipe.
func (s *scriptWriter) curl(r Request, options, suffix string) string {
	var b strings.Builder
	feed := ""
	b.WriteString("curl -sS " + options)
	if r.Method != http.MethodGet {
		b.WriteString(" -X " + r.Method)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[name] {
			b.WriteString(" -H " + s.quote(name+": "+value))
		}
	}
	if r.Chunked {
		b.WriteString(" -H 'Transfer-Encoding: chunked'")
	}
	switch {
	case r.Stalled:
		feed = "sleep 60 | " // the body never arrives
		b.WriteString(" -T -")
	case len(r.Body) > maxShownBytes:
		if before, run, after := longestRun(r.Body); len(before)+len(after) <= maxShownBytes {
			feed = fmt.Sprintf("{ printf %%s %s; head -c %d /dev/zero | tr '\\0' %c; printf %%s %s; } | ", s.quote(string(before)), len(run), run[0], s.quote(string(after)))
			b.WriteString(" --data-binary @-")
			break
		}
		b.WriteString(" --data-binary @body")
		s.addLine(fmt.Sprintf("# body: a file of %d bytes that begins with %s", len(r.Body), singleQuote(s.secrets.Cut(r.Body, 80))))
	case r.Body != nil:
		b.WriteString(" --data-binary " + s.quote(string(r.Body)))
	}
	return feed + b.String() + " " + s.quote(r.URL) + suffix
}

// longestRun returns the longest run of one letter in a body, and the parts before and after it.
func longestRun(body []byte) (before, run, after []byte) {
	from, length := 0, 0
	for i := 0; i < len(body); {
		end := i + 1
		for end < len(body) && body[end] == body[i] {
			end++
		}
		if end-i > length && (body[i] >= 'a' && body[i] <= 'z' || body[i] >= 'A' && body[i] <= 'Z') {
			from, length = i, end-i
		}
		i = end
	}
	return body[:from], body[from : from+length], body[from+length:]
}

// quote quotes a text for a POSIX shell. Secrets and ids become variables that the shell expands.
func (s *scriptWriter) quote(text string) string {
	var pairs []string // each value and its variable between NUL bytes, which no argument contains
	s.secrets.mu.RLock()
	for _, v := range slices.Concat(s.secrets.values, s.ids) {
		pairs = append(pairs, v.value, "\x00"+v.shown[1:]+"\x00")
	}
	s.secrets.mu.RUnlock()
	parts := strings.Split(strings.NewReplacer(pairs...).Replace(text), "\x00") // literals and variables in turn
	if len(parts) == 1 {
		return singleQuote(text)
	}
	var quotedParts, oneString strings.Builder // each part in its own quotes; all of it, to stand in one pair of quotes
	simple := true
	for i, part := range parts {
		switch {
		case i%2 == 1:
			if !s.names[part] && !strings.HasPrefix(part, "GPUCLOUD_") { // the user sets the keys
				s.names[part] = true
				s.settings = append(s.settings, part+"=any-secret-of-your-own")
			}
			quotedParts.WriteString(`"$` + part + `"`)
			oneString.WriteString("${" + part + "}")
		case part != "":
			simple = simple && !strings.ContainsAny(part, "$`\\\"!")
			quotedParts.WriteString(singleQuote(part))
			oneString.WriteString(part)
		}
	}
	if simple {
		return `"` + braces.ReplaceAllString(oneString.String(), "$$$1$2") + `"`
	}
	return quotedParts.String()
}

// braces matches the braces of variables that are unambiguous without them.
var braces = regexp.MustCompile(`\$\{([A-Z0-9_]+)\}($|[^A-Za-z0-9_])`)

func singleQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// maxShownBytes is the longest body, in bytes, that a command contains.
const maxShownBytes = 2000
