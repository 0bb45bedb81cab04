package httpanswer

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"strings"
)

// Refusal is an answer that rejects a request. A 401 also gets the header that asks for a bearer
// token.
type Refusal struct {
	Status     int
	Text       string
	Faults     []string // faults of the body
	Allow      []string // methods that the path allows
	RetryAfter string   // seconds; "" for no header
	Close      bool     // close the connection instead of reading the rest of the body
}

// Refuse returns a Refusal.
func Refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

// NotAllowed rejects a method that a path doesn't allow.
func NotAllowed(r *http.Request, allow ...string) *Refusal {
	methods := strings.Join(allow, ", ")
	refusal := Refuse(http.StatusMethodNotAllowed, "%s allows %s, not %s", r.URL.Path, methods, r.Method)
	refusal.Allow = allow
	return refusal
}

// Error returns the text with the faults.
func (r *Refusal) Error() string {
	if len(r.Faults) == 0 {
		return r.Text
	}
	return r.Text + ": " + strings.Join(r.Faults, "; ")
}

// Form is the form of an API's error bodies.
type Form int

const (
	// Error is {"error": text}: the job API, the worker protocol and the operator's routes.
	Error Form = iota
	// Message is {"message": text}: version 1 of the management API, which answers 400 to every
	// invalid body.
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

// message is a body of the form Message.
type message struct {
	Message string `json:"message"`
}

// BodyType returns the wire type of the forms Message and Problem.
func (f Form) BodyType() reflect.Type {
	if f == Problem {
		return reflect.TypeFor[problem]()
	}
	return reflect.TypeFor[message]()
}

// BodyMedia returns the content type of an error.
func (f Form) BodyMedia() string {
	if f == Problem {
		return problemMedia
	}
	return "application/json"
}

const problemMedia = "application/problem+json"

// Refuse writes a refusal.
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
		write(w, status, problemMedia, encode(problem{http.StatusText(status), status, r.Text, r.Faults}))
	case Message:
		if status == http.StatusUnprocessableEntity {
			status = http.StatusBadRequest
		}
		JSON(w, status, message{r.Error()})
	default:
		Bytes(w, r.Status, ErrorBody(r))
	}
}

// ErrorBody returns the body of a Refusal in the form Error, on one line.
func ErrorBody(r *Refusal) []byte {
	return bytes.TrimSpace(encode(map[string]string{"error": r.Error()}))
}
