package httpanswer

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
)

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
	r.setHeader(w.Header())
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

// Fail answers an error: a Refusal as it is, a shortage by when to try again.
// Anything else is the deployment's own failure, of which the log has more.
func (f Form) Fail(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	refusal := new(Refusal)
	if !errors.As(err, &refusal) {
		refusal = shortage(r.Context(), err)
	}
	switch {
	case refusal != nil:
	case r.Context().Err() != nil: // nobody is there to read
		refusal = Refuse(http.StatusServiceUnavailable, "the request was withdrawn")
	default:
		log.ErrorContext(r.Context(), "a request failed", "path", r.URL.Path, "error", err, "request", SetRequestID(w.Header()))
		refusal = f.Internal(w.Header())
	}
	f.Refuse(w, refusal)
}

// Internal says that the deployment failed, and under which id its log has more.
func (f Form) Internal(h http.Header) *Refusal {
	const text = "the deployment failed to answer: its log says why"
	if f == Error {
		return Refuse(http.StatusInternalServerError, text)
	}
	return Refuse(http.StatusInternalServerError, text+", under the request id %s", SetRequestID(h))
}
