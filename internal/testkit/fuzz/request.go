package fuzz

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Request parses a request as a server does. It returns nil if net/http rejects the request.
func Request(t *testing.T, authorization, method, target, body string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if _, refused := http.NewRequestWithContext(t.Context(), method, "/", nil); refused != nil || err != nil {
		return nil
	}
	r := &http.Request{Method: method, URL: u, Host: "deployment", Header: http.Header{"Authorization": {authorization}}, Body: http.NoBody}
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	return r
}
