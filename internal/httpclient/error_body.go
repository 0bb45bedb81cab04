package httpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
)

// errorBody is a parsed error document. raw marks text that isn't from the API, for example
// from a proxy.
type errorBody struct {
	title, detail string
	fields        []string
	raw           bool
}

// parseErrorBody reads all known forms: RFC 9457 (v2), {"message": …} (v1), and {"error": …}
// with a text or an object (v1 as deployed, job API).
func parseErrorBody(contentType string, body []byte) errorBody {
	var doc struct {
		Title   FreeText
		Detail  FreeText
		Message FreeText
		Error   FreeText
		Errors  []FreeText
	}
	if json.Unmarshal(body, &doc) != nil {
		if isHTML(contentType, body) {
			return errorBody{raw: true, detail: "an HTML page, so this may not be the address of the API"}
		}
		return errorBody{raw: true, detail: string(body)}
	}
	out := errorBody{title: string(doc.Title)}
	for _, text := range []FreeText{doc.Detail, doc.Message, doc.Error} {
		if out.detail == "" {
			out.detail = string(text)
		}
	}
	for _, text := range doc.Errors {
		out.fields = append(out.fields, string(text))
	}
	if out.detail == "" && len(out.fields) == 0 && out.title == "" {
		return errorBody{raw: true, detail: string(body)}
	}
	return out
}

// FreeText is a text that some deployments wrap in an object or a list.
type FreeText string

// UnmarshalJSON removes the wrapping.
func (t *FreeText) UnmarshalJSON(data []byte) error {
	*t = FreeText(readText(data, maxWrapping))
	return nil
}

// maxWrapping limits the nesting that is unwrapped: each level is parsed once more.
const maxWrapping = 8

func readText(data []byte, wrapping int) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	if wrapping == 0 {
		return string(data)
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil {
		parts := make([]string, len(list))
		for i, part := range list {
			parts[i] = readText(part, wrapping-1)
		}
		return strings.Join(parts, "; ")
	}
	var object struct{ Detail, Message, Error, Title json.RawMessage }
	if json.Unmarshal(data, &object) == nil {
		for _, member := range []json.RawMessage{object.Detail, object.Message, object.Error, object.Title} {
			if member == nil {
				continue
			}
			if text := readText(member, wrapping-1); text != "" {
				return text
			}
		}
	}
	return string(data)
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// describeServer describes the server that answered instead of the API.
func describeServer(resp *http.Response, answer []byte) string {
	text := "a server that answers in plain text"
	switch {
	case len(bytes.TrimSpace(answer)) == 0:
		text = "a server that answers without a body"
	case isHTML(resp.Header.Get("Content-Type"), answer):
		text = "a web site"
		if m := pageTitle.FindSubmatch(answer); m != nil {
			text += fmt.Sprintf(" (page title %q)", html.UnescapeString(strings.TrimSpace(string(m[1]))))
		}
	case json.Valid(answer):
		text = "another API"
	}
	if server := resp.Header.Get("Server"); server != "" {
		text += ", served by " + server
	}
	return text
}

func isHTML(contentType string, body []byte) bool {
	if contentType == "" {
		contentType = http.DetectContentType(body)
	}
	return strings.Contains(contentType, "html")
}
