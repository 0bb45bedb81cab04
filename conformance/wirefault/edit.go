package wirefault

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Edit changes a request or an answer. Members are named by path, like jobs.inQueue; * is any name.
type Edit struct {
	Status  int                 `json:"status"`
	Path    [2]string           `json:"path"` // a regular expression and its replacement
	Method  string              `json:"method"`
	Header  map[string]string   `json:"header"` // "" deletes a header; $KEY is the deployment's key, $SENT the client's
	Body    *string             `json:"body"`   // replaces the whole body
	Set     map[string]any      `json:"set"`
	Default map[string]any      `json:"default"` // set if they are absent or null
	Delete  []string            `json:"delete"`
	Text    []string            `json:"text"`   // members whose JSON is encoded as a string
	Rename  map[string]string   `json:"rename"` // new names, by path
	Recode  map[string]Recoding `json:"recode"` // names of recodings, by path; "" is the whole body

	Query   [2]string            `json:"query"`   // a regular expression and its replacement
	Affix   map[string][2]string `json:"affix"`   // prefix and suffix of a string, by path; placeholders as in Header
	Raw     [][2]string          `json:"raw"`     // regular expressions and their replacements in the encoded body
	Form    string               `json:"form"`    // "ornate" is equivalent JSON with other white space, order of members and escapes
	Reverse bool                 `json:"reverse"` // reverses a list, or the lists in an object
	Page    int                  `json:"page"`    // page size: splits a list into pages with links
	Gzip    bool                 `json:"gzip"`    // compresses the body
	Chunked bool                 `json:"chunked"` // sends the body without Content-Length
}

// applyToRequest edits a request. The body is edited when it is read, because the client may never send it.
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
	if e.Body == nil && e.Raw == nil && !e.changesJSON() {
		e.apply(nil, r.Header, placeholders)
		return
	}
	e.applyToHeader(r.Header, placeholders)
	r.Body = &lazyBody{raw: r.Body, apply: func(body []byte) []byte { return e.apply(body, http.Header{}, placeholders) }}
	r.ContentLength = -1
}

// lazyBody edits a body when it is read.
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

func (e Edit) applyToHeader(header http.Header, placeholders *strings.Replacer) {
	for name, value := range e.Header {
		header.Del(name)
		if value != "" {
			header.Set(name, placeholders.Replace(value))
		}
	}
}

func (e Edit) apply(body []byte, header http.Header, placeholders *strings.Replacer) []byte {
	e.applyToHeader(header, placeholders)
	if e.Body != nil {
		return []byte(placeholders.Replace(*e.Body))
	}
	for _, substitution := range e.Raw {
		body = pattern(substitution[0]).ReplaceAll(body, []byte(substitution[1]))
	}
	if !e.changesJSON() {
		return body
	}
	tree, err := wire.Decode(body)
	if err != nil {
		return body
	}
	tree = e.editMembers(tree, placeholders)
	if e.Reverse {
		tree = reverseLists(tree)
	}
	if e.Form != "" {
		return []byte(wire.Encode(rand.New(rand.NewPCG(1, 1)), tree, false))
	}
	edited, err := json.Marshal(tree)
	if err != nil {
		return body
	}
	return edited
}

// changesJSON reports whether the edit needs the decoded body.
func (e Edit) changesJSON() bool {
	return e.Set != nil || e.Default != nil || e.Delete != nil || e.Text != nil || e.Rename != nil || e.Recode != nil || e.Affix != nil || e.Form != "" || e.Reverse
}

// editMembers changes, adds and removes members of a body, and returns it.
func (e Edit) editMembers(tree any, placeholders *strings.Replacer) any {
	edit := func(path string, create bool, replace func(parent map[string]any, old any) (any, bool)) {
		editAt(tree, strings.Split(path, "."), create, replace)
	}
	for path, value := range e.Set {
		if text, ok := value.(string); ok {
			value = placeholders.Replace(text)
		}
		edit(path, true, func(map[string]any, any) (any, bool) { return value, true })
	}
	for path, value := range e.Default {
		edit(path, true, func(_ map[string]any, old any) (any, bool) { return cmp.Or(old, value), true })
	}
	for _, path := range e.Delete {
		edit(path, false, func(map[string]any, any) (any, bool) { return nil, false })
	}
	for _, path := range e.Text {
		edit(path, false, func(_ map[string]any, old any) (any, bool) {
			text, _ := json.Marshal(old)
			return string(text), true
		})
	}
	for path, name := range e.Rename {
		edit(path, false, func(parent map[string]any, old any) (any, bool) {
			parent[name] = old
			return nil, false
		})
	}
	for path, coding := range e.Recode {
		if path == "" {
			tree = recode(tree, coding)
			continue
		}
		edit(path, false, func(_ map[string]any, old any) (any, bool) { return recode(old, coding), !isDropped(old, coding) })
	}
	for path, affix := range e.Affix {
		edit(path, false, func(_ map[string]any, old any) (any, bool) {
			if text, ok := old.(string); ok {
				return placeholders.Replace(affix[0]) + text + placeholders.Replace(affix[1]), true
			}
			return old, true
		})
	}
	return tree
}

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

// editAt replaces the value at a path by the result of replace. If replace returns false, editAt
// deletes a member of an object, and keeps an element of a list. With create, replace is also called for an absent member.
func editAt(tree any, path []string, create bool, replace func(parent map[string]any, old any) (any, bool)) {
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
				editAt(old, rest, create, replace)
			case len(rest) > 0, !present && !create:
			default:
				if value, keep := replace(node, old); keep {
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
				editAt(old, rest, create, replace)
			default:
				if value, keep := replace(map[string]any{}, old); keep {
					node[i] = value
				}
			}
		}
	}
}

// writeAnswer sends an answer, compressed or chunked if the edit says so.
func (e Edit) writeAnswer(out http.ResponseWriter, status int, header http.Header, body []byte) {
	maps.Copy(out.Header(), header)
	out.Header().Del("Content-Length")
	if e.Gzip && len(body) > 0 {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // writes to memory don't fail
		_ = z.Close()
		body = b.Bytes()
		out.Header().Set("Content-Encoding", "gzip")
	}
	out.WriteHeader(status)
	if flusher, ok := out.(http.Flusher); ok && e.Chunked {
		flusher.Flush()
	}
	_, _ = out.Write(body)
}

// decompress undoes the compression of another fault, so that the body can be edited.
func (a *storedAnswer) decompress() {
	if a.header.Get("Content-Encoding") != "gzip" {
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		return
	}
	if body, err := io.ReadAll(z); err == nil {
		a.body, a.compressed = body, true
		a.header.Del("Content-Encoding")
	}
}

// paginate returns one page of a list, and adds a link to the next page.
func (e Edit) paginate(body []byte, header http.Header, requestURL *url.URL) []byte {
	var list []json.RawMessage
	if e.Page == 0 || json.Unmarshal(body, &list) != nil {
		return body
	}
	from, _ := strconv.Atoi(requestURL.Query().Get("from")) // 0 for the first page
	from = min(max(from, 0), len(list))
	to := min(from+e.Page, len(list))
	if to < len(list) {
		header.Set("Link", fmt.Sprintf(`<%s?from=%d>; rel="next"`, requestURL.Path, to))
	}
	text, err := json.Marshal(list[from:to])
	if err != nil {
		return body
	}
	return text
}

// reverseLists reverses a list, or the lists in an object.
func reverseLists(tree any) any {
	switch node := tree.(type) {
	case []any:
		slices.Reverse(node)
	case map[string]any:
		for _, member := range node {
			if list, ok := member.([]any); ok {
				slices.Reverse(list)
			}
		}
	}
	return tree
}
