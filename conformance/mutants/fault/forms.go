package fault

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

// write sends an answer, in the form that the edit asks for.
func (e edit) write(out http.ResponseWriter, status int, header http.Header, body []byte) {
	for name, values := range header {
		out.Header()[name] = values
	}
	out.Header().Del("Content-Length")
	if e.Gzip && len(body) > 0 {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // to memory
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

// unzip takes the compression of an edit nearer to the deployment off, for one
// more to be made.
func (a *answer) unzip() {
	if a.header.Get("Content-Encoding") != "gzip" {
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		return
	}
	if body, err := io.ReadAll(z); err == nil {
		a.body, a.zipped = body, true
		a.header.Del("Content-Encoding")
	}
}

// page answers one page of a list, and where the next one is.
func (e edit) page(body []byte, header http.Header, asked *url.URL) []byte {
	var list []json.RawMessage
	if e.Page == 0 || json.Unmarshal(body, &list) != nil {
		return body
	}
	from, _ := strconv.Atoi(asked.Query().Get("from")) // the first page: 0
	from = min(max(from, 0), len(list))
	to := min(from+e.Page, len(list))
	if to < len(list) {
		header.Set("Link", fmt.Sprintf(`<%s?from=%d>; rel="next"`, asked.Path, to))
	}
	text, err := json.Marshal(slices.Clip(list[from:to]))
	if err != nil {
		return body
	}
	return text
}

// reversed is a list, or an object of lists, in the other order.
func reversed(tree any) any {
	switch in := tree.(type) {
	case []any:
		slices.Reverse(in)
	case map[string]any:
		for _, member := range in {
			if list, ok := member.([]any); ok {
				slices.Reverse(list)
			}
		}
	}
	return tree
}

// ornate is JSON with white space everywhere, members in descending order, and
// everything escaped that may be.
func ornate(b []byte, tree any, line string) []byte {
	inner := line + "\t"
	switch in := tree.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, name := range slices.Backward(slices.Sorted(maps.Keys(in))) {
			b = append(append(b, inner...), quoted(name)...)
			b = ornate(append(b, " : "...), in[name], inner)
			if i > 0 {
				b = append(b, " ,"...)
			}
		}
		return append(append(b, line...), '}')
	case []any:
		b = append(b, '[')
		for i, value := range in {
			b = ornate(append(b, inner...), value, inner)
			if i < len(in)-1 {
				b = append(b, " ,"...)
			}
		}
		return append(append(b, line...), ']')
	case string:
		return append(b, quoted(in)...)
	}
	text, _ := json.Marshal(tree) // a number, a boolean or null
	return append(b, text...)
}

// quoted is a string with escapes for all but ASCII, and for slashes.
func quoted(s string) string {
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
