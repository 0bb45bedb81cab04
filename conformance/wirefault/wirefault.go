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
	"maps"
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
	Now func() time.Time // its clock; nil: the real time
}

// storedAnswer is an answer that may be repeated (Stale).
type storedAnswer struct {
	status     int
	header     http.Header
	body       []byte
	at         time.Time
	compressed bool // was compressed, and is compressed again when it is sent
}

// Edit is a list of changes to a request or an answer. Members are named by path:
// jobs.inQueue, 0.password; * stands for every member.
type Edit struct {
	Status  int               `json:"status"`
	Path    [2]string         `json:"path"` // a regular expression, and its replacement
	Method  string            `json:"method"`
	Header  map[string]string `json:"header"` // "" deletes it; $KEY is the deployment's key, $SENT the client's
	Body    *string           `json:"body"`   // replaces the whole body
	Set     map[string]any    `json:"set"`
	Default map[string]any    `json:"default"` // are set where they are absent
	Delete  []string          `json:"delete"`
	Text    []string          `json:"text"`   // members that become strings of their JSON
	Rename  map[string]string `json:"rename"` // by path: the new name of the member
	Recode  map[string]string `json:"recode"` // by path ("": the whole body): see recode.go
	Wrap    string            `json:"wrap"`   // the body becomes this member of an object

	Query   [2]string            `json:"query"`   // a regular expression, and its replacement
	Affix   map[string][2]string `json:"affix"`   // by path: a prefix and a suffix for a string, with the placeholders of Header
	Raw     [][2]string          `json:"raw"`     // regular expressions and their replacements, in the undecoded body
	Form    string               `json:"form"`    // "ornate": the same JSON with other white space, order of members and escapes
	Reverse bool                 `json:"reverse"` // reverses a list, or the lists in an object
	Page    int                  `json:"page"`    // the size of a page: a list is cut to one, with a link to the next
	Gzip    bool                 `json:"gzip"`    // sends the body compressed
	Chunked bool                 `json:"chunked"` // sends the body without Content-Length
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

// applyToRequest edits a request; its body is edited when the deployment reads it.
func (e Edit) applyToRequest(r *http.Request, placeholders *strings.Replacer) {
	if e.Path[0] != "" {
		r.URL.Path = pattern(e.Path[0]).ReplaceAllString(r.URL.Path, e.Path[1])
		r.URL.RawPath = ""
	}
	if e.Query[0] != "" {
		r.URL.RawQuery = pattern(e.Query[0]).ReplaceAllString(r.URL.RawQuery, e.Query[1])
	}
	if e.Method != "" {
		r.Method = e.Method
	}
	if e.Body == nil && e.Set == nil && e.Default == nil && e.Delete == nil && e.Text == nil && e.Rename == nil && e.Recode == nil && e.Raw == nil && e.Affix == nil {
		e.apply(nil, r.Header, placeholders)
		return
	}
	for name, value := range e.Header {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, placeholders.Replace(value))
		}
	}
	// The client may never send the body, so that only the deployment may wait for it.
	r.Body = &lazyBody{raw: r.Body, apply: func(body []byte) []byte { return e.apply(body, http.Header{}, placeholders) }}
	r.ContentLength = -1
}

// lazyBody is a body that is edited when it is read.
type lazyBody struct {
	raw   io.ReadCloser
	apply func([]byte) []byte
	body  io.Reader
}

func (l *lazyBody) Read(p []byte) (int, error) {
	if l.body == nil {
		body, err := io.ReadAll(l.raw)
		if err != nil {
			return 0, err
		}
		l.body = bytes.NewReader(l.apply(body))
	}
	return l.body.Read(p)
}

func (l *lazyBody) Close() error { return l.raw.Close() }

// apply edits a header, and returns the edited body.
func (e Edit) apply(body []byte, header http.Header, placeholders *strings.Replacer) []byte {
	for name, value := range e.Header {
		header.Del(name)
		if value != "" {
			header.Set(name, placeholders.Replace(value))
		}
	}
	if e.Body != nil {
		return []byte(placeholders.Replace(*e.Body))
	}
	for _, substitution := range e.Raw {
		body = pattern(substitution[0]).ReplaceAll(body, []byte(substitution[1]))
	}
	if e.Set == nil && e.Default == nil && e.Delete == nil && e.Text == nil && e.Rename == nil && e.Recode == nil && e.Wrap == "" && e.Affix == nil && e.Form == "" && !e.Reverse {
		return body
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var tree any
	if d.Decode(&tree) != nil {
		return body
	}
	for path, value := range e.Set {
		if text, ok := value.(string); ok {
			value = placeholders.Replace(text)
		}
		tree = editAt(tree, strings.Split(path, "."), true, func(map[string]any, string, any) (any, bool) { return value, true })
	}
	for path, value := range e.Default {
		tree = editAt(tree, strings.Split(path, "."), true, func(_ map[string]any, _ string, old any) (any, bool) {
			if old != nil {
				return old, true
			}
			return value, true
		})
	}
	for _, path := range e.Delete {
		tree = editAt(tree, strings.Split(path, "."), false, func(map[string]any, string, any) (any, bool) { return nil, false })
	}
	for _, path := range e.Text {
		tree = editAt(tree, strings.Split(path, "."), false, func(_ map[string]any, _ string, old any) (any, bool) {
			text, _ := json.Marshal(old)
			return string(text), true
		})
	}
	for path, name := range e.Rename {
		tree = editAt(tree, strings.Split(path, "."), false, func(in map[string]any, _ string, old any) (any, bool) {
			in[name] = old
			return nil, false
		})
	}
	for path, as := range e.Recode {
		if path == "" {
			tree = recode(tree, as)
			continue
		}
		tree = editAt(tree, strings.Split(path, "."), false, func(_ map[string]any, _ string, old any) (any, bool) { return recode(old, as), !isDropped(old, as) })
	}
	for path, affix := range e.Affix {
		tree = editAt(tree, strings.Split(path, "."), false, func(_ map[string]any, _ string, old any) (any, bool) {
			if text, ok := old.(string); ok {
				return placeholders.Replace(affix[0]) + text + placeholders.Replace(affix[1]), true
			}
			return old, true
		})
	}
	if e.Wrap != "" {
		tree = map[string]any{e.Wrap: tree}
	}
	if e.Reverse {
		tree = reverseLists(tree)
	}
	if e.Form != "" {
		return ornate(nil, tree, "\r\n")
	}
	edited, err := json.Marshal(tree)
	if err != nil {
		return body
	}
	return edited
}

// hasMembers tells whether a body has these members with these values.
func hasMembers(body []byte, members map[string]any) bool {
	var tree map[string]any
	if len(members) > 0 && json.Unmarshal(body, &tree) != nil {
		return false
	}
	for name, value := range members {
		if tree[name] != value {
			return false
		}
	}
	return true
}

// editAt replaces the value at a path by the result of replace, or deletes it where
// replace returns false. With create, replace is called for an absent member, too.
func editAt(tree any, path []string, create bool, replace func(node map[string]any, name string, old any) (any, bool)) any {
	first, rest := path[0], path[1:]
	switch node := tree.(type) {
	case map[string]any:
		names := []string{first}
		if first == "*" {
			names = slices.Collect(maps.Keys(node))
		}
		for _, name := range names {
			old, present := node[name]
			switch {
			case len(rest) > 0 && present:
				node[name] = editAt(old, rest, create, replace)
			case len(rest) > 0, !present && !create:
			default:
				if value, keep := replace(node, name, old); keep {
					node[name] = value
				} else {
					delete(node, name)
				}
			}
		}
	case []any:
		for i, old := range node {
			switch {
			case first != "*" && first != strconv.Itoa(i):
			case len(rest) > 0:
				node[i] = editAt(old, rest, create, replace)
			default:
				if value, keep := replace(map[string]any{}, first, old); keep {
					node[i] = value
				}
			}
		}
	}
	return tree
}
