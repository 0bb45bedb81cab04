// Package wirefault injects faults into HTTP requests and answers in front of a deployment.
// Faults are JSON. Mutants and variants of the jobrunner, `conformance client` and the
// tests of the provider use them.
package wirefault

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault changes matching requests and their answers.
type Fault struct {
	// The conditions. A fault applies if all conditions that are set hold. Conditions on the answer
	// restrict only its edit. Status restricts Again and Stale, too.
	Method string `json:"method"`
	Path   string `json:"path"`   // a regular expression
	Except string `json:"except"` // a regular expression for exempt paths
	Status int    `json:"status"` // of the answer
	// AnswerWith are members that the answer must have with the same values.
	AnswerWith map[string]any `json:"when"`
	// If WithoutHeader is set, the request must have a body, and must not have this header. BodyWithout is a
	// regular expression that must not match the body, and BodyWith one that must match it.
	WithoutHeader string `json:"without"`
	BodyWithout   string `json:"lacks"`
	BodyWith      string `json:"has"`
	// Line is a regular expression that must match the method and URL, or a header line.
	// $KEY is the deployment's key, $HALF the first half of the key.
	Line string `json:"sent"`
	// First restricts the fault to the first matching request and its repetitions.
	First bool `json:"first"`
	// Of equal requests (method, URL, body), the first Skip are exempt, and the next Times are hit, or all if Times is 0.
	Skip  int `json:"skip"`
	Times int `json:"times"`

	Request Edit `json:"request"`
	Answer  Edit `json:"answer"`
	// Again repeats the request with this edit. The client gets the second answer, unless Discard is set.
	Again   *Edit `json:"again"`
	Discard bool  `json:"discard"`
	// Remember is a member of request bodies. The placeholder $SEEN stands for its values so far.
	Remember string `json:"remember"`
	// Recall is a member of create bodies. It is added to the answer to the create and to later answers about the object.
	Recall string `json:"recall"`
	// Refuse answers with an error in the form of the request's API.
	Refuse *Refusal `json:"refuse"`
	// Stub answers 200 without calling the deployment; Answer edits the answer. In it, $PATH stands for the
	// request's path, $QUERY for its query with the question mark.
	Stub bool `json:"stub"`
	// Stale is how long an answer to the same method, URL and key is repeated, in seconds of the deployment's clock.
	Stale int `json:"stale"`

	// Drop closes the connection. Hold holds the request until the client disconnects or
	// Gate is closed. The moment is "before" or "after" the deployment serves the request.
	Drop Moment `json:"drop"`
	Hold Moment `json:"hold"`
	// Gate releases held requests when it is closed. Held, if set, receives a value for each of them.
	Gate <-chan struct{} `json:"-"`
	Held chan<- struct{} `json:"-"`
	// If Drip is set, the body is sent in pieces of 32 bytes, each after Drip seconds.
	// After Cut bytes the connection is closed. After Stall bytes nothing more is sent, and
	// the connection stays open.
	Delay float64 `json:"delay"` // seconds before the answer
	Drip  float64 `json:"drip"`
	Cut   int     `json:"cut"`
	Stall int     `json:"stall"`

	mu           sync.Mutex
	remembered   []string
	recallByID   map[string]any           // values of Recall, by the object's id
	answers      map[string]*storedAnswer // by request
	firstRequest string                   // the first matching one
	counts       map[string]int           // by request
}

// Refusal is an error that replaces the deployment's answer.
type Refusal struct {
	Status int    `json:"status"`
	Detail string `json:"detail"` // placeholders as in Edit.Header
}

// apply makes the deployment refuse the request because of a missing key, and replaces the status
// and the texts of the answer. So the answer has the deployment's form.
func (r Refusal) apply(f *Fault) {
	f.Refuse = nil
	f.Request.Header = map[string]string{"Authorization": ""}
	f.Answer.Status = r.Status
	if f.Answer.Header == nil {
		f.Answer.Header = map[string]string{}
	}
	f.Answer.Header["Www-Authenticate"] = ""
	f.Answer.Raw = [][2]string{{`"status":\d+`, fmt.Sprintf(`"status":%d`, r.Status)}, {`"title":"[^"]*"`, `"title":` + strconv.Quote(http.StatusText(r.Status))}, {`"(detail|message|error)":"[^"]*"`, `"$1":""`}}
	f.Answer.Affix = map[string][2]string{"detail": {r.Detail, ""}, "message": {r.Detail, ""}, "error": {r.Detail, ""}}
}

// Deployment has the properties of a deployment that faults need.
type Deployment struct {
	Key string
	Now func() time.Time // the deployment's clock; nil is real time
}

// storedAnswer is an answer that Stale may repeat.
type storedAnswer struct {
	status     int
	header     http.Header
	body       []byte
	at         time.Time
	compressed bool // whether it must be compressed again
}

// Moment is before or after the deployment serves a request.
type Moment string

const (
	beforeServing Moment = "before"
	afterServing  Moment = "after"
)

func (m *Moment) UnmarshalText(text []byte) error {
	if *m = Moment(text); *m != beforeServing && *m != afterServing {
		return fmt.Errorf("expected before or after, got %q", text)
	}
	return nil
}

// Handler wraps a handler in faults. The first fault is nearest to the client.
func Handler(next http.Handler, d Deployment, faults ...*Fault) http.Handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	for _, f := range slices.Backward(faults) {
		next = f.handler(next, d)
	}
	return next
}

func (f *Fault) handler(next http.Handler, d Deployment) http.Handler {
	if f.Refuse != nil {
		f.Refuse.apply(f)
	}
	if f.counts == nil { // a fault keeps its state when its deployment restarts
		f.counts, f.recallByID, f.answers = map[string]int{}, map[string]any{}, map[string]*storedAnswer{}
	}
	path, except := pattern(f.Path), pattern(cmp.Or(f.Except, "^$"))
	line := pattern(strings.NewReplacer("$KEY", d.Key, "$HALF", d.Key[:len(d.Key)/2]).Replace(f.Line))
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		f.remember(r)
		if f.Method != "" && f.Method != r.Method || !path.MatchString(r.URL.Path) || except.MatchString(r.URL.Path) || !hasLine(r, line) || !f.matchesRequest(r) || !f.isDue(r) {
			next.ServeHTTP(out, r)
			return
		}
		f.interrupt(beforeServing, r)
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		placeholders := strings.NewReplacer("$KEY", d.Key, "$SENT", key, "$SEEN", f.seenValues(), "$PATH", r.URL.Path,
			"$QUERY", strings.TrimPrefix(r.URL.RequestURI(), r.URL.EscapedPath()))
		requestURL := *r.URL
		var again *http.Request
		if f.Again != nil {
			again = r.Clone(r.Context())
			again.Body = io.NopCloser(bytes.NewReader(readBody(r)))
		}
		f.Request.applyToRequest(r, placeholders)
		answer := f.serve(next, r, d.Now)
		if again != nil && (f.Status == 0 || f.Status == answer.status) {
			f.Again.applyToRequest(again, placeholders)
			if second := f.serve(next, again, d.Now); !f.Discard {
				answer = second
			}
		}
		if (f.Status == 0 || f.Status == answer.status) && hasMembers(answer.body, f.AnswerWith) {
			answer.body = f.recall(answer.body)
			answer.body = f.Answer.apply(answer.body, answer.header, placeholders)
			answer.body = f.Answer.paginate(answer.body, answer.header, &requestURL)
			answer.status = cmp.Or(f.Answer.Status, answer.status)
		}
		f.interrupt(afterServing, r)
		edit := f.Answer
		edit.Gzip = edit.Gzip || answer.compressed
		pause(r, f.Delay)
		if f.Drip != 0 || f.Cut != 0 || f.Stall != 0 {
			out = &slowWriter{out, r, f}
		}
		edit.writeAnswer(out, answer.status, answer.header, answer.body)
	})
}

// isDue counts requests with equal method, URL and body, and applies First, Skip and Times.
func (f *Fault) isDue(r *http.Request) bool {
	if !f.First && f.Skip == 0 && f.Times == 0 {
		return true
	}
	request := r.Method + " " + r.URL.String() + " " + string(readBody(r))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.firstRequest = cmp.Or(f.firstRequest, request)
	if f.First && request != f.firstRequest {
		return false
	}
	n := f.counts[request] - f.Skip
	f.counts[request]++
	return n >= 0 && (f.Times == 0 || n < f.Times)
}

// matchesRequest applies WithoutHeader, BodyWithout and BodyWith.
func (f *Fault) matchesRequest(r *http.Request) bool {
	if f.WithoutHeader != "" && (r.Header.Get(f.WithoutHeader) != "" || r.ContentLength == 0) {
		return false
	}
	if f.BodyWithout == "" && f.BodyWith == "" {
		return true
	}
	body := readBody(r)
	return pattern(f.BodyWith).Match(body) && (f.BodyWithout == "" || !pattern(f.BodyWithout).Match(body))
}

// patterns caches compiled regular expressions by their text, since each request needs several.
var patterns sync.Map

func pattern(text string) *regexp.Regexp {
	if p, ok := patterns.Load(text); ok {
		return p.(*regexp.Regexp)
	}
	p := regexp.MustCompile(text)
	patterns.Store(text, p)
	return p
}

// readBody returns the body of a request, which can be read again.
func readBody(r *http.Request) []byte {
	if r.Body == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	return body
}

// serve returns the deployment's answer, an earlier one if Stale is set, or an empty one if Stub is set.
func (f *Fault) serve(next http.Handler, r *http.Request, now func() time.Time) *storedAnswer {
	if f.Stub {
		return &storedAnswer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}}
	}
	key := r.Method + " " + r.URL.String() + r.Header.Get("Authorization")
	if f.Stale > 0 {
		f.mu.Lock()
		stale := f.answers[key]
		f.mu.Unlock()
		if stale != nil && now().Sub(stale.at) < time.Duration(f.Stale)*time.Second {
			return &storedAnswer{stale.status, stale.header.Clone(), stale.body, stale.at, stale.compressed}
		}
	}
	var requestBody bytes.Buffer
	if f.Recall != "" && r.Body != nil {
		r.Body = io.NopCloser(io.TeeReader(r.Body, &requestBody))
	}
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, r)
	var sent map[string]any
	_ = json.Unmarshal(requestBody.Bytes(), &sent) // sent stays nil unless the body is an object
	recalled := sent[f.Recall]
	fresh := &storedAnswer{recorder.Code, recorder.Header(), recorder.Body.Bytes(), now(), false}
	fresh.decompress()
	var members struct{ ID string }
	switch {
	case recalled != nil && json.Unmarshal(fresh.body, &members) == nil && members.ID != "":
		f.mu.Lock()
		defer f.mu.Unlock()
		f.recallByID[members.ID] = recalled
	case f.Stale > 0 && (f.Status == 0 || f.Status == fresh.status):
		f.mu.Lock()
		defer f.mu.Unlock()
		f.answers[key] = &storedAnswer{fresh.status, fresh.header.Clone(), fresh.body, fresh.at, fresh.compressed}
	}
	return fresh
}

// recall adds the member Recall with its value in the create.
func (f *Fault) recall(body []byte) []byte {
	var members map[string]any
	if f.Recall == "" || json.Unmarshal(body, &members) != nil {
		return body
	}
	id, _ := members["id"].(string)
	f.mu.Lock()
	value := f.recallByID[id]
	f.mu.Unlock()
	if value == nil {
		return body
	}
	return Edit{Set: map[string]any{f.Recall: value}}.apply(body, http.Header{}, strings.NewReplacer())
}

// remember records the value of the member Remember.
func (f *Fault) remember(r *http.Request) {
	var members map[string]any
	if f.Remember == "" || json.Unmarshal(readBody(r), &members) != nil {
		return
	}
	if text, ok := members[f.Remember].(string); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.remembered = append(f.remembered, text)
	}
}

func (f *Fault) seenValues() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.remembered, " ")
}

// hasLine reports whether the request line or a header matches.
func hasLine(r *http.Request, line *regexp.Regexp) bool {
	if line.String() == "" || line.MatchString(r.Method+" "+r.URL.RequestURI()) || r.ContentLength < 0 && line.MatchString("Transfer-Encoding: chunked") {
		return true
	}
	for name, values := range r.Header {
		for _, value := range values {
			if line.MatchString(name + ": " + value) {
				return true
			}
		}
	}
	return false
}

// interrupt holds a request or drops its connection at a moment, see Drop and Hold.
func (f *Fault) interrupt(moment Moment, r *http.Request) {
	if f.Hold == moment {
		_ = readBody(r) // net/http notices a disconnected client only after the body is read
		if f.Held != nil {
			f.Held <- struct{}{}
		}
		select {
		case <-f.Gate:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.Drop == moment {
		_ = readBody(r)
		panic(http.ErrAbortHandler)
	}
}

// pause waits, and aborts the request if the client disconnects.
func pause(r *http.Request, seconds float64) {
	if seconds == 0 {
		return
	}
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

type slowWriter struct {
	http.ResponseWriter
	request *http.Request
	fault   *Fault
}

// Write sends the body, or its part before Cut or Stall. It is called once.
func (w *slowWriter) Write(body []byte) (int, error) {
	flusher := http.NewResponseController(w.ResponseWriter)
	sent, end := 0, len(body)
	for _, limit := range []int{w.fault.Cut, w.fault.Stall} {
		if limit > 0 {
			end = min(end, limit)
		}
	}
	for sent < end {
		piece := body[sent:end]
		if w.fault.Drip > 0 {
			pause(w.request, w.fault.Drip)
			piece = piece[:min(len(piece), 32)]
		}
		n, err := w.ResponseWriter.Write(piece)
		sent += n
		if err == nil {
			err = flusher.Flush()
		}
		if err != nil {
			return sent, err
		}
	}
	switch {
	case sent == len(body):
		return sent, nil
	case w.fault.Stall > 0:
		<-w.request.Context().Done()
	}
	panic(http.ErrAbortHandler)
}
