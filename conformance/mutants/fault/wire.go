package fault

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// wire edits the requests that match, and their answers.
type wire struct {
	// Which requests and answers are edited: all conditions that are set must hold.
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

	Request edit `json:"request"`
	Answer  edit `json:"answer"`
	// Remember names a member of request bodies: $SEEN stands for all values that
	// it has had.
	Remember string `json:"remember"`
	// Recall names a member of a request's body that is added to later answers
	// about the object that the request created.
	Recall string `json:"recall"`
	// Stub answers without calling the deployment: $PATH is the path of the request.
	Stub bool `json:"stub"`
	// Stale is for how many seconds of the deployment's time the answer to the
	// same request is repeated.
	Stale int `json:"stale"`

	mu         sync.Mutex
	remembered []string
	recallByID map[string]any           // values of Recall, by id of the object
	answers    map[string]*storedAnswer // by request
}

// storedAnswer is an answer that may be repeated (Stale).
type storedAnswer struct {
	status     int
	header     http.Header
	body       []byte
	at         time.Time
	compressed bool // was compressed, and is compressed again when it is sent
}

// edit is a list of changes to a request or an answer. Members are named by path:
// jobs.inQueue, 0.password; * stands for every member.
type edit struct {
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
	Affix   map[string][2]string `json:"affix"`   // by path: a prefix and a suffix for a string
	Raw     [][2]string          `json:"raw"`     // regular expressions and their replacements, in the undecoded body
	Form    string               `json:"form"`    // "ornate": the same JSON with other white space, order of members and escapes
	Reverse bool                 `json:"reverse"` // reverses a list, or the lists in an object
	Page    int                  `json:"page"`    // the size of a page: a list is cut to one, with a link to the next
	Gzip    bool                 `json:"gzip"`    // sends the body compressed
	Chunked bool                 `json:"chunked"` // sends the body without Content-Length
}

func (w *wire) handler(next http.Handler, deploymentClock *clock.Clock) http.Handler {
	path, except := pattern(w.Path), pattern(cmp.Or(w.Except, "^$"))
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.remember(r)
		if w.Method != "" && w.Method != r.Method || !path.MatchString(r.URL.Path) || except.MatchString(r.URL.Path) || !w.matchesRequest(r) {
			next.ServeHTTP(out, r)
			return
		}
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		placeholders := strings.NewReplacer("$KEY", os.Getenv("GPUCLOUD_API_KEY"), "$SENT", key, "$SEEN", w.allRemembered(), "$PATH", r.URL.Path)
		requestURL := *r.URL
		w.Request.applyToRequest(r, placeholders)
		answer := w.staleOrServed(next, r, deploymentClock)
		status, body := answer.status, answer.body
		if (w.Status == 0 || w.Status == status) && hasMembers(body, w.AnswerWith) {
			body = w.addRecalled(body)
			body = w.Answer.apply(body, answer.header, placeholders)
			body = w.Answer.paginate(body, answer.header, &requestURL)
			if w.Answer.Status != 0 {
				status = w.Answer.Status
			}
		}
		form := w.Answer
		form.Gzip = form.Gzip || answer.compressed
		form.writeAnswer(out, status, answer.header, body)
	})
}

// matchesRequest tells whether header and body of a request match.
func (w *wire) matchesRequest(r *http.Request) bool {
	if w.WithoutHeader != "" && (r.Header.Get(w.WithoutHeader) != "" || r.ContentLength == 0) {
		return false
	}
	if w.BodyWithout == "" && w.BodyWith == "" {
		return true
	}
	body := readBody(r)
	switch {
	case w.BodyWithout != "" && pattern(w.BodyWithout).Match(body),
		w.BodyWith != "" && !pattern(w.BodyWith).Match(body):
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
func (w *wire) staleOrServed(next http.Handler, r *http.Request, deploymentClock *clock.Clock) *storedAnswer {
	if w.Stub {
		return &storedAnswer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}}
	}
	key := r.Method + " " + r.URL.String() + r.Header.Get("Authorization")
	if w.Stale > 0 {
		w.mu.Lock()
		stale := w.answers[key]
		w.mu.Unlock()
		if stale != nil && deploymentClock.Now().Sub(stale.at) < time.Duration(w.Stale)*time.Second {
			return &storedAnswer{stale.status, stale.header.Clone(), stale.body, stale.at, stale.compressed}
		}
	}
	var requestBody bytes.Buffer
	if w.Recall != "" && r.Body != nil {
		r.Body = io.NopCloser(io.TeeReader(r.Body, &requestBody))
	}
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, r)
	var submission map[string]any
	_ = json.Unmarshal(requestBody.Bytes(), &submission) // or there is nothing to recall
	input := submission[w.Recall]
	fresh := &storedAnswer{recorder.Code, recorder.Header(), recorder.Body.Bytes(), deploymentClock.Now(), false}
	fresh.decompress()
	var members struct{ ID string }
	switch {
	case input != nil && json.Unmarshal(fresh.body, &members) == nil && members.ID != "":
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.recallByID == nil {
			w.recallByID = map[string]any{}
		}
		w.recallByID[members.ID] = input
	case w.Stale > 0 && (w.Status == 0 || w.Status == fresh.status):
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.answers == nil {
			w.answers = map[string]*storedAnswer{}
		}
		w.answers[key] = &storedAnswer{fresh.status, fresh.header.Clone(), fresh.body, fresh.at, fresh.compressed}
	}
	return fresh
}

// addRecalled adds the member that the object's creation was sent with (Recall).
func (w *wire) addRecalled(body []byte) []byte {
	var members map[string]any
	if w.Recall == "" || json.Unmarshal(body, &members) != nil {
		return body
	}
	id, _ := members["id"].(string)
	w.mu.Lock()
	value := w.recallByID[id]
	w.mu.Unlock()
	if value == nil {
		return body
	}
	return edit{Set: map[string]any{w.Recall: value}}.apply(body, http.Header{}, strings.NewReplacer())
}

// remember records the value of a member of the request's body (Remember).
func (w *wire) remember(r *http.Request) {
	if w.Remember == "" || r.Body == nil {
		return
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var members map[string]any
	if err != nil || json.Unmarshal(body, &members) != nil {
		return
	}
	if text, ok := members[w.Remember].(string); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.remembered = append(w.remembered, text)
	}
}

func (w *wire) allRemembered() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.remembered, " ")
}

// applyToRequest edits a request; its body is edited when the deployment reads it.
func (e edit) applyToRequest(r *http.Request, placeholders *strings.Replacer) {
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
	if e.Body == nil && e.Set == nil && e.Default == nil && e.Delete == nil && e.Text == nil && e.Rename == nil && e.Recode == nil && e.Raw == nil {
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
func (e edit) apply(body []byte, header http.Header, placeholders *strings.Replacer) []byte {
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
				return affix[0] + text + affix[1], true
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
