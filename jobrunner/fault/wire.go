//go:build mutants

package fault

import (
	"bytes"
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
)

// wire edits the requests that it is about, and their answers.
type wire struct {
	// What it is about: all that are set must match.
	Method string `json:"method"`
	Path   string `json:"path"`   // a regular expression
	Status int    `json:"status"` // of the answer
	// When are members that the answer must have, with these values.
	When map[string]any `json:"when"`

	Request edit `json:"request"`
	Answer  edit `json:"answer"`
	// Remember is a member of all requests' bodies, whose values $SEEN stands for.
	Remember string `json:"remember"`

	mu   sync.Mutex
	seen []string
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
	Wrap    string            `json:"wrap"`   // the whole becomes the member of an object
}

func (w *wire) handler(next http.Handler) http.Handler {
	path := regexp.MustCompile(w.Path)
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.remember(r)
		if w.Method != "" && w.Method != r.Method || !path.MatchString(r.URL.Path) {
			next.ServeHTTP(out, r)
			return
		}
		sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		said := strings.NewReplacer("$KEY", os.Getenv("GPUCLOUD_API_KEY"), "$SENT", sent, "$SEEN", w.all())
		w.Request.request(r, said)
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		status, body := answer.Code, answer.Body.Bytes()
		if (w.Status == 0 || w.Status == status) && holds(body, w.When) {
			body = w.Answer.message(body, answer.Header(), said)
			if w.Answer.Status != 0 {
				status = w.Answer.Status
			}
		}
		for name, values := range answer.Header() {
			out.Header()[name] = values
		}
		out.Header().Del("Content-Length")
		out.WriteHeader(status)
		_, _ = out.Write(body)
	})
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
		r.URL.Path = regexp.MustCompile(e.Path[0]).ReplaceAllString(r.URL.Path, e.Path[1])
		r.URL.RawPath = ""
	}
	if e.Method != "" {
		r.Method = e.Method
	}
	if e.Body == nil && e.Set == nil && e.Default == nil && e.Delete == nil && e.Text == nil && e.Rename == nil {
		e.message(nil, r.Header, said)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	body = e.message(body, r.Header, said)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

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
	if e.Set == nil && e.Default == nil && e.Delete == nil && e.Text == nil && e.Rename == nil && e.Wrap == "" {
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
	if e.Wrap != "" {
		tree = map[string]any{e.Wrap: tree}
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
