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

// wire edits the requests that it is about, and their answers.
type wire struct {
	// What it is about: all that are set must match.
	Method string `json:"method"`
	Path   string `json:"path"`   // a regular expression
	Except string `json:"except"` // paths that it is not about, the same
	Status int    `json:"status"` // of the answer
	// When are members that the answer must have, with these values.
	When map[string]any `json:"when"`
	// Without is a header that the request has not, Lacks and Has regular
	// expressions that its body does not match, and matches.
	Without string `json:"without"`
	Lacks   string `json:"lacks"`
	Has     string `json:"has"`

	Request edit `json:"request"`
	Answer  edit `json:"answer"`
	// Remember is a member of all requests' bodies, whose values $SEEN stands for.
	Remember string `json:"remember"`
	// Recall is a member of a request's body that later answers with the same id
	// show, too.
	Recall string `json:"recall"`
	// Stub answers without asking the deployment: $PATH is the path that was asked.
	Stub bool `json:"stub"`
	// Stale answers, for so many seconds of the deployment's time, what was
	// answered to the same request before.
	Stale int `json:"stale"`

	mu      sync.Mutex
	seen    []string
	recall  map[string]any     // by id
	answers map[string]*answer // by request
}

// answer is one that is kept.
type answer struct {
	status int
	header http.Header
	body   []byte
	at     time.Time
	zipped bool // is sent compressed
}

// edit is what becomes of a message. Members are named by path: jobs.inQueue,
// 0.password; * stands for every member.
type edit struct {
	Status  int               `json:"status"`
	Path    [2]string         `json:"path"` // a regular expression, and its replacement
	Method  string            `json:"method"`
	Header  map[string]string `json:"header"` // "" deletes it; $KEY is the deployment's key, $SENT the client's
	Body    *string           `json:"body"`   // all of it
	Set     map[string]any    `json:"set"`
	Default map[string]any    `json:"default"` // set where they are absent
	Delete  []string          `json:"delete"`
	Text    []string          `json:"text"`   // these become strings, of their JSON
	Rename  map[string]string `json:"rename"` // the last name of the path
	Recode  map[string]string `json:"recode"` // by path ("": all of it): see recode.go
	Wrap    string            `json:"wrap"`   // the whole becomes the member of an object

	Query   [2]string            `json:"query"`   // as Path
	Affix   map[string][2]string `json:"affix"`   // what stands before and behind a string then
	Raw     [][2]string          `json:"raw"`     // regular expressions, and their replacements in the body's text
	Form    string               `json:"form"`    // "ornate": the same JSON with other white space, order of members and escapes
	Reverse bool                 `json:"reverse"` // of a list, or of the lists in an object
	Page    int                  `json:"page"`    // a list becomes its first so many, with a link to the rest
	Gzip    bool                 `json:"gzip"`    // compressed
	Chunked bool                 `json:"chunked"` // sent without its length
}

func (w *wire) handler(next http.Handler, clock *clock.Clock) http.Handler {
	path, except := pattern(w.Path), pattern(cmp.Or(w.Except, "^$"))
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.remember(r)
		if w.Method != "" && w.Method != r.Method || !path.MatchString(r.URL.Path) || except.MatchString(r.URL.Path) || !w.asks(r) {
			next.ServeHTTP(out, r)
			return
		}
		sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		said := strings.NewReplacer("$KEY", os.Getenv("GPUCLOUD_API_KEY"), "$SENT", sent, "$SEEN", w.all(), "$PATH", r.URL.Path)
		asked := *r.URL
		w.Request.request(r, said)
		got := w.ask(next, r, clock)
		status, body := got.status, got.body
		if (w.Status == 0 || w.Status == status) && holds(body, w.When) {
			body = w.recalled(body)
			body = w.Answer.message(body, got.header, said)
			body = w.Answer.page(body, got.header, &asked)
			if w.Answer.Status != 0 {
				status = w.Answer.Status
			}
		}
		last := w.Answer
		last.Gzip = last.Gzip || got.zipped
		last.write(out, status, got.header, body)
	})
}

// asks tells whether a request has what the fault is about.
func (w *wire) asks(r *http.Request) bool {
	if w.Without != "" && (r.Header.Get(w.Without) != "" || r.ContentLength == 0) {
		return false
	}
	if w.Lacks == "" && w.Has == "" {
		return true
	}
	body := text(r)
	switch {
	case w.Lacks != "" && pattern(w.Lacks).Match(body),
		w.Has != "" && !pattern(w.Has).Match(body):
		return false
	}
	return true
}

// patterns are those that were compiled, by their text: requests come by the
// thousand.
var patterns sync.Map

func pattern(text string) *regexp.Regexp {
	if p, ok := patterns.Load(text); ok {
		return p.(*regexp.Regexp)
	}
	p := regexp.MustCompile(text)
	patterns.Store(text, p)
	return p
}

// text is the body of a request, which can be read again.
func text(r *http.Request) []byte {
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

// ask asks the deployment, or answers what it answered a moment ago.
func (w *wire) ask(next http.Handler, r *http.Request, clock *clock.Clock) *answer {
	if w.Stub {
		return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}}
	}
	key := r.Method + " " + r.URL.String() + r.Header.Get("Authorization")
	if w.Stale > 0 {
		w.mu.Lock()
		old := w.answers[key]
		w.mu.Unlock()
		if old != nil && clock.Now().Sub(old.at) < time.Duration(w.Stale)*time.Second {
			return &answer{old.status, old.header.Clone(), old.body, old.at, old.zipped}
		}
	}
	var sent bytes.Buffer
	if w.Recall != "" && r.Body != nil {
		r.Body = io.NopCloser(io.TeeReader(r.Body, &sent))
	}
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, r)
	var submission map[string]any
	_ = json.Unmarshal(sent.Bytes(), &submission) // or there is nothing to recall
	input := submission[w.Recall]
	got := &answer{recorder.Code, recorder.Header(), recorder.Body.Bytes(), clock.Now(), false}
	got.unzip()
	var members struct{ ID string }
	switch {
	case input != nil && json.Unmarshal(got.body, &members) == nil && members.ID != "":
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.recall == nil {
			w.recall = map[string]any{}
		}
		w.recall[members.ID] = input
	case w.Stale > 0 && (w.Status == 0 || w.Status == got.status):
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.answers == nil {
			w.answers = map[string]*answer{}
		}
		w.answers[key] = &answer{got.status, got.header.Clone(), got.body, got.at, got.zipped}
	}
	return got
}

// recalled shows what was sent when a thing was made.
func (w *wire) recalled(body []byte) []byte {
	var members map[string]any
	if w.Recall == "" || json.Unmarshal(body, &members) != nil {
		return body
	}
	id, _ := members["id"].(string)
	w.mu.Lock()
	value := w.recall[id]
	w.mu.Unlock()
	if value == nil {
		return body
	}
	return edit{Set: map[string]any{w.Recall: value}}.message(body, http.Header{}, strings.NewReplacer())
}

// remember keeps the values of a member.
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
		w.seen = append(w.seen, text)
	}
}

func (w *wire) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.seen, " ")
}

func (e edit) request(r *http.Request, said *strings.Replacer) {
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
		e.message(nil, r.Header, said)
		return
	}
	for name, value := range e.Header {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, said.Replace(value))
		}
	}
	// A body that does not come must not be waited for before the deployment does.
	r.Body = &lazy{raw: r.Body, change: func(body []byte) []byte { return e.message(body, http.Header{}, said) }}
	r.ContentLength = -1
}

// lazy is a body that is changed when it is read.
type lazy struct {
	raw    io.ReadCloser
	change func([]byte) []byte
	body   io.Reader
}

func (l *lazy) Read(p []byte) (int, error) {
	if l.body == nil {
		body, err := io.ReadAll(l.raw)
		if err != nil {
			return 0, err
		}
		l.body = bytes.NewReader(l.change(body))
	}
	return l.body.Read(p)
}

func (l *lazy) Close() error { return l.raw.Close() }

// message edits a body and its header.
func (e edit) message(body []byte, header http.Header, said *strings.Replacer) []byte {
	for name, value := range e.Header {
		header.Del(name)
		if value != "" {
			header.Set(name, said.Replace(value))
		}
	}
	if e.Body != nil {
		return []byte(said.Replace(*e.Body))
	}
	for _, one := range e.Raw {
		body = pattern(one[0]).ReplaceAll(body, []byte(one[1]))
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
			value = said.Replace(text)
		}
		tree = change(tree, strings.Split(path, "."), true, func(map[string]any, string, any) (any, bool) { return value, true })
	}
	for path, value := range e.Default {
		tree = change(tree, strings.Split(path, "."), true, func(_ map[string]any, _ string, old any) (any, bool) {
			if old != nil {
				return old, true
			}
			return value, true
		})
	}
	for _, path := range e.Delete {
		tree = change(tree, strings.Split(path, "."), false, func(map[string]any, string, any) (any, bool) { return nil, false })
	}
	for _, path := range e.Text {
		tree = change(tree, strings.Split(path, "."), false, func(_ map[string]any, _ string, old any) (any, bool) {
			text, _ := json.Marshal(old)
			return string(text), true
		})
	}
	for path, name := range e.Rename {
		tree = change(tree, strings.Split(path, "."), false, func(in map[string]any, _ string, old any) (any, bool) {
			in[name] = old
			return nil, false
		})
	}
	for path, as := range e.Recode {
		if path == "" {
			tree = recode(tree, as)
			continue
		}
		tree = change(tree, strings.Split(path, "."), false, func(_ map[string]any, _ string, old any) (any, bool) { return recode(old, as), !emptied(old, as) })
	}
	for path, affix := range e.Affix {
		tree = change(tree, strings.Split(path, "."), false, func(_ map[string]any, _ string, old any) (any, bool) {
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
		tree = reversed(tree)
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

// holds tells whether a body has these members.
func holds(body []byte, members map[string]any) bool {
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

// change puts in the place that the path names what to returns, or nothing
// where that is false. Where nothing stands, to is asked if create is set.
func change(tree any, path []string, create bool, to func(in map[string]any, name string, old any) (any, bool)) any {
	first, rest := path[0], path[1:]
	switch in := tree.(type) {
	case map[string]any:
		names := []string{first}
		if first == "*" {
			names = slices.Collect(maps.Keys(in))
		}
		for _, name := range names {
			old, there := in[name]
			switch {
			case len(rest) > 0 && there:
				in[name] = change(old, rest, create, to)
			case len(rest) > 0, !there && !create:
			default:
				if value, stays := to(in, name, old); stays {
					in[name] = value
				} else {
					delete(in, name)
				}
			}
		}
	case []any:
		for i, old := range in {
			switch {
			case first != "*" && first != strconv.Itoa(i):
			case len(rest) > 0:
				in[i] = change(old, rest, create, to)
			default:
				if value, stays := to(map[string]any{}, first, old); stays {
					in[i] = value
				}
			}
		}
	}
	return tree
}
