package httpanswer

import (
	"bytes"
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

// Form is the body by which an API refuses a request.
type Form int

const (
	// Error is {"error": text}: the job API, the worker protocol, and what is for
	// those who operate the deployment.
	Error Form = iota
	// Message is {"message": text}: version 1 of the management API, which knows
	// 400 for all that is wrong with a body.
	Message
	// Problem is version 2 of the management API (RFC 9457).
	Problem
)

// problem is a body of the form Problem.
type problem struct {
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Errors []string `json:"errors,omitempty"`
}

// Refuse answers a refusal.
func (f Form) Refuse(w http.ResponseWriter, r *Refusal) {
	h := w.Header()
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
	switch status := r.Status; f {
	case Problem:
		write(w, status, "application/problem+json", encode(problem{http.StatusText(status), status, r.Text, r.Faults}))
	case Message:
		if status == http.StatusUnprocessableEntity {
			status = http.StatusBadRequest
		}
		JSON(w, status, map[string]string{"message": r.Error()})
	default:
		Bytes(w, r.Status, ErrorBody(r))
	}
}

// ErrorBody is the body of a refusal in the form Error, on one line.
func ErrorBody(r *Refusal) []byte {
	return bytes.TrimSpace(encode(map[string]string{"error": r.Error()}))
}
