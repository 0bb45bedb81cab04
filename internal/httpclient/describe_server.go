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
