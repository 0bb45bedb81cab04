//go:build mutants

package fault

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// wire edits the requests that it is about, and their answers.
type wire struct {
	// What it is about: all that are set must match.
	Method string `json:"method"`
	Path   string `json:"path"`   // a regular expression
	Status int    `json:"status"` // of the answer

	Request edit `json:"request"`
	Answer  edit `json:"answer"`
}

// edit is what becomes of a message. Members are named by path: jobs.inQueue,
// 0.password; * stands for every member.
type edit struct {
	Status  int               `json:"status"`
	Path    [2]string         `json:"path"` // a regular expression, and its replacement
	Method  string            `json:"method"`
	Header  map[string]string `json:"header"` // "" deletes it; $KEY is the deployment's key
	Body    *string           `json:"body"`   // all of it; $KEY likewise, $SENT what the client sent as key
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
		if w.Method != "" && w.Method != r.Method || !path.MatchString(r.URL.Path) {
			next.ServeHTTP(out, r)
			return
		}
		sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.Request.request(r, sent)
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		status, body := answer.Code, answer.Body.Bytes()
		if w.Status == 0 || w.Status == status {
			body = w.Answer.message(body, answer.Header(), sent)
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

func (e edit) request(r *http.Request, sent string) {
	if e.Path[0] != "" {
		r.URL.Path = regexp.MustCompile(e.Path[0]).ReplaceAllString(r.URL.Path, e.Path[1])
		r.URL.RawPath = ""
	}
	if e.Method != "" {
		r.Method = e.Method
	}
	if e.Body == nil && e.Set == nil && e.Default == nil && e.Delete == nil && e.Text == nil && e.Rename == nil {
		e.message(nil, r.Header, sent)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	body = e.message(body, r.Header, sent)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

// message edits a body and its header.
func (e edit) message(body []byte, header http.Header, sent string) []byte {
	said := strings.NewReplacer("$KEY", os.Getenv("GPUCLOUD_API_KEY"), "$SENT", sent)
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
		tree = change(tree, strings.Split(path, "."), func(map[string]any, string, any) (any, bool) { return value, true })
	}
	for path, value := range e.Default {
		tree = change(tree, strings.Split(path, "."), func(_ map[string]any, _ string, old any) (any, bool) {
			if old != nil {
				return old, true
			}
			return value, true
		})
	}
	for _, path := range e.Delete {
		tree = change(tree, strings.Split(path, "."), func(map[string]any, string, any) (any, bool) { return nil, false })
	}
	for _, path := range e.Text {
		tree = change(tree, strings.Split(path, "."), func(_ map[string]any, _ string, old any) (any, bool) {
			text, _ := json.Marshal(old)
			return string(text), true
		})
	}
	for path, name := range e.Rename {
		tree = change(tree, strings.Split(path, "."), func(in map[string]any, _ string, old any) (any, bool) {
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

// change applies to what the path names; to returns what stands there instead,
// or false for nothing.
func change(tree any, path []string, to func(in map[string]any, name string, old any) (any, bool)) any {
	first, rest := path[0], path[1:]
	switch in := tree.(type) {
	case map[string]any:
		for name, old := range in {
			if first != "*" && first != name {
				continue
			}
			in[name] = old
			if len(rest) > 0 {
				in[name] = change(old, rest, to)
			} else if value, stays := to(in, name, old); stays {
				in[name] = value
			} else {
				delete(in, name)
			}
		}
		if _, there := in[first]; !there && len(rest) == 0 && first != "*" {
			if value, stays := to(in, first, nil); stays && value != nil {
				in[first] = value
			}
		}
	case []any:
		for i := range in {
			if first == "*" || first == strconv.Itoa(i) {
				if len(rest) > 0 {
					in[i] = change(in[i], rest, to)
				} else if value, stays := to(map[string]any{}, first, in[i]); stays {
					in[i] = value
				}
			}
		}
	}
	return tree
}
