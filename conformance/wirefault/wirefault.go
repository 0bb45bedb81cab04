// Package wirefault applies faults to HTTP requests and answers in front of a deployment.
// Mutants and variants of the jobrunner, `conformance client` and the tests of the
// provider describe their faults in this language.
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

// Fault is a fault of the requests that match, and of their answers.
type Fault struct {
	// Which requests and answers are faulty: all conditions that are set must hold.
	Method string `json:"method"`
	Path   string `json:"path"`   // a regular expression
	Except string `json:"except"` // a regular expression for paths to leave alone
	Status int    `json:"status"` // of the answer
	// AnswerWith are members that the answer must have, with these values.
	AnswerWith map[string]any `json:"when"`
	// WithoutHeader is a header that the request must not have. BodyWithout and
	// BodyWith are regular expressions that its body must not match, and must match.
	WithoutHeader string `json:"without"`
	BodyWithout   string `json:"lacks"`
	BodyWith      string `json:"has"`
	// RequestLine is a regular expression that a line of the request must match:
	// its method and URL, or a header. $KEY is the deployment's key, $HALF the
	// first half of that key.
	RequestLine string `json:"sent"`
	// First restricts the fault to requests that are equal to the first that matched.
	First bool `json:"first"`
	// Of equal requests, the first Skip are left alone, and then Times are faulty (0: all).
	Skip  int `json:"skip"`
	Times int `json:"times"`

	Request Edit `json:"request"`
	Answer  Edit `json:"answer"`
	// Again serves the request a second time, with this edit; the client gets the
	// second answer unless Discard is set.
	Again   *Edit `json:"again"`
	Discard bool  `json:"discard"`
	// Remember names a member of request bodies: $SEEN stands for all values that
	// it has had.
	Remember string `json:"remember"`
	// Recall names a member of a request's body that is added to later answers
	// about the object that the request created.
	Recall string `json:"recall"`
	// Refuse answers as the deployment refuses, in the form of each API.
	Refuse *Refusal `json:"refuse"`
	// Stub answers without calling the deployment: $PATH is the path of the request.
	Stub bool `json:"stub"`
	// Stale is for how many seconds of the deployment's time the answer to the
	// same request is repeated.
	Stale int `json:"stale"`

	// Drop closes the connection and Hold holds the request until the client closes it or
	// Gate is closed: "before" the deployment serves it, or "after" that.
	Drop string `json:"drop"`
	Hold string `json:"hold"`
	// Gate releases held requests when it is closed. Held, if not nil, receives a value
	// for each request that is held.
	Gate <-chan struct{} `json:"-"`
	Held chan<- struct{} `json:"-"`
	// The body is sent in pieces of 32 bytes with pauses of Drip seconds between them.
	// After Cut bytes the connection closes, and after Stall bytes it stays open without
	// further ones.
	Delay float64 `json:"delay"` // in seconds, before the answer
	Drip  float64 `json:"drip"`
	Cut   int     `json:"cut"`
	Stall int     `json:"stall"`

	mu         sync.Mutex
	remembered []string
	recallByID map[string]any           // values of Recall, by id of the object
	answers    map[string]*storedAnswer // by request
	first      string                   // request
	counts     map[string]int           // by request
}

// Refusal is an answer in the deployment's place.
type Refusal struct {
	Status int    `json:"status"`
	Detail string `json:"detail"` // with the placeholders of Header
}

// apply takes the form of the answer from the deployment, which refuses the request for want of a
// key, and changes its words.
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

// Deployment is what faults need to know of a deployment.
type Deployment struct {
	Key string
	Now func() time.Time // the deployment's clock; nil means real time
}

// storedAnswer is an answer that may be repeated (Stale).
type storedAnswer struct {
	status     int
	header     http.Header
	body       []byte
	at         time.Time
	compressed bool // was compressed, and is compressed again when it is sent
}

// Check returns an error if the fault names a recoding or a moment that does not exist.
func (f *Fault) Check() error {
	for _, edit := range []*Edit{&f.Request, &f.Answer, f.Again} {
		if edit == nil {
			continue
		}
		for _, as := range edit.Recode {
			if err := CheckRecoding(as); err != nil {
				return err
			}
		}
	}
	for _, moment := range []string{f.Drop, f.Hold} {
		if !slices.Contains([]string{"", before, after}, moment) {
			return fmt.Errorf("expected before or after, got %q", moment)
		}
	}
	return nil
}

// Moments of Drop and Hold.
const (
	before = "before"
	after  = "after"
)

// Handler wraps a handler in faults: the first is nearest to the client.
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
	path, except := pattern(f.Path), pattern(cmp.Or(f.Except, "^$"))
	line := pattern(strings.NewReplacer("$KEY", d.Key, "$HALF", d.Key[:len(d.Key)/2]).Replace(f.RequestLine))
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		f.remember(r)
		if f.Method != "" && f.Method != r.Method || !path.MatchString(r.URL.Path) || except.MatchString(r.URL.Path) || !hasLine(r, line) || !f.matchesRequest(r) || !f.isDue(r) {
			next.ServeHTTP(out, r)
			return
		}
		f.interrupt(before, r)
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		placeholders := strings.NewReplacer("$KEY", d.Key, "$SENT", key, "$SEEN", f.allRemembered(), "$PATH", r.URL.Path)
		requestURL := *r.URL
		var again *http.Request
		if f.Again != nil {
			again = r.Clone(r.Context())
			again.Body = io.NopCloser(bytes.NewReader(readBody(r)))
		}
		f.Request.applyToRequest(r, placeholders)
		answer := f.staleOrServed(next, r, d.Now)
		if again != nil && (f.Status == 0 || f.Status == answer.status) {
			f.Again.applyToRequest(again, placeholders)
			if second := f.staleOrServed(next, again, d.Now); !f.Discard {
				answer = second
			}
		}
		if (f.Status == 0 || f.Status == answer.status) && hasMembers(answer.body, f.AnswerWith) {
			answer.body = f.addRecalled(answer.body)
			answer.body = f.Answer.apply(answer.body, answer.header, placeholders)
			answer.body = f.Answer.paginate(answer.body, answer.header, &requestURL)
			answer.status = cmp.Or(f.Answer.Status, answer.status)
		}
		f.interrupt(after, r)
		form := f.Answer
		form.Gzip = form.Gzip || answer.compressed
		form.writeAnswer(f.slowly(out, r), answer.status, answer.header, answer.body)
	})
}

// isDue counts equal requests.
func (f *Fault) isDue(r *http.Request) bool {
	if !f.First && f.Skip == 0 && f.Times == 0 {
		return true
	}
	request := r.Method + " " + r.URL.String() + " " + string(readBody(r))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.first, f.counts = request, map[string]int{}
	}
	if f.First && request != f.first {
		return false
	}
	n := f.counts[request] - f.Skip
	f.counts[request]++
	return n >= 0 && (f.Times == 0 || n < f.Times)
}

// matchesRequest tells whether header and body of a request match.
func (f *Fault) matchesRequest(r *http.Request) bool {
	if f.WithoutHeader != "" && (r.Header.Get(f.WithoutHeader) != "" || r.ContentLength == 0) {
		return false
	}
	if f.BodyWithout == "" && f.BodyWith == "" {
		return true
	}
	body := readBody(r)
	switch {
	case f.BodyWithout != "" && pattern(f.BodyWithout).Match(body),
		f.BodyWith != "" && !pattern(f.BodyWith).Match(body):
		return false
	}
	return true
}

// patterns caches compiled regular expressions by their text: there are thousands
// of requests.
var patterns sync.Map

func pattern(text string) *regexp.Regexp {
	if p, ok := patterns.Load(text); ok {
		return p.(*regexp.Regexp)
	}
	p := regexp.MustCompile(text)
	patterns.Store(text, p)
	return p
}

// readBody reads the body of a request and leaves it there to be read again.
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

// staleOrServed returns the deployment's answer, or an earlier one (Stale).
func (f *Fault) staleOrServed(next http.Handler, r *http.Request, now func() time.Time) *storedAnswer {
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
	var submission map[string]any
	_ = json.Unmarshal(requestBody.Bytes(), &submission) // or there is nothing to recall
	input := submission[f.Recall]
	fresh := &storedAnswer{recorder.Code, recorder.Header(), recorder.Body.Bytes(), now(), false}
	fresh.decompress()
	var members struct{ ID string }
	switch {
	case input != nil && json.Unmarshal(fresh.body, &members) == nil && members.ID != "":
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.recallByID == nil {
			f.recallByID = map[string]any{}
		}
		f.recallByID[members.ID] = input
	case f.Stale > 0 && (f.Status == 0 || f.Status == fresh.status):
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.answers == nil {
			f.answers = map[string]*storedAnswer{}
		}
		f.answers[key] = &storedAnswer{fresh.status, fresh.header.Clone(), fresh.body, fresh.at, fresh.compressed}
	}
	return fresh
}

// addRecalled adds the member that the object's creation was sent with (Recall).
func (f *Fault) addRecalled(body []byte) []byte {
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

// remember records the value of a member of the request's body (Remember).
func (f *Fault) remember(r *http.Request) {
	if f.Remember == "" || r.Body == nil {
		return
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var members map[string]any
	if err != nil || json.Unmarshal(body, &members) != nil {
		return
	}
	if text, ok := members[f.Remember].(string); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.remembered = append(f.remembered, text)
	}
}

func (f *Fault) allRemembered() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.remembered, " ")
}
