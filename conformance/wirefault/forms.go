package wirefault

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// writeAnswer sends an answer, compressed or chunked if the edit says so.
func (e Edit) writeAnswer(out http.ResponseWriter, status int, header http.Header, body []byte) {
	for name, values := range header {
		out.Header()[name] = values
	}
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
	text, err := json.Marshal(slices.Clip(list[from:to]))
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

// ornate encodes JSON with much white space, members in descending order, and all permitted
// escapes. line is the line break with the current indent.
func ornate(b []byte, tree any, line string) []byte {
	inner := line + "\t"
	switch node := tree.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, name := range slices.Backward(slices.Sorted(maps.Keys(node))) {
			b = append(append(b, inner...), escapedString(name)...)
			b = ornate(append(b, " : "...), node[name], inner)
			if i > 0 {
				b = append(b, " ,"...)
			}
		}
		return append(append(b, line...), '}')
	case []any:
		b = append(b, '[')
		for i, value := range node {
			b = ornate(append(b, inner...), value, inner)
			if i < len(node)-1 {
				b = append(b, " ,"...)
			}
		}
		return append(append(b, line...), ']')
	case string:
		return append(b, escapedString(node)...)
	}
	text, _ := json.Marshal(tree) // a number, a boolean or null
	return append(b, text...)
}

// escapedString encodes a string, with escapes for slashes and for all characters that
// aren't ASCII.
func escapedString(s string) string {
	text, _ := json.Marshal(s)
	var b strings.Builder
	for _, r := range strings.ReplaceAll(string(text), "/", `\/`) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}
