package httpanswer

import (
	"fmt"
	"net/http"
	"strings"
)

// Refusal is an answer that says why a request is not served. A 401 asks for a
// bearer token by its status.
type Refusal struct {
	Status     int
	Text       string
	Faults     []string // of the body, one by one
	Allow      []string // methods that the path takes
	RetryAfter string   // seconds; "": not said
	Close      bool     // end the connection, instead of reading the rest of the body
}

// Refuse makes a refusal.
func Refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

// NotAllowed refuses a method that a path does not take.
func NotAllowed(r *http.Request, allow ...string) *Refusal {
	methods := strings.Join(allow, ", ")
	refusal := Refuse(http.StatusMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, methods, r.Method)
	refusal.Allow = allow
	return refusal
}

// Error is the text with the faults.
func (r *Refusal) Error() string {
	if len(r.Faults) == 0 {
		return r.Text
	}
	return r.Text + ": " + strings.Join(r.Faults, "; ")
}

func (r *Refusal) setHeader(h http.Header) {
	if r.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if r.Allow != nil {
		h.Set("Allow", strings.Join(r.Allow, ", "))
	}
	if r.RetryAfter != "" {
		h.Set("Retry-After", r.RetryAfter)
	}
	if r.Close {
		h.Set("Connection", "close")
	}
}
