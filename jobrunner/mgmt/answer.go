package mgmt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/unavailable"
)

// setRequestID gives the answer an id of its own, unless what surrounds this
// handler has done so.
func setRequestID(h http.Header) {
	if h.Get(requestID) == "" {
		h.Set(requestID, uuid.NewString())
	}
}

const requestID = "X-Request-Id"

// failure is an answer that refuses. faults are those of the body, one by one.
type failure struct {
	status int
	detail string
	faults []string
}

func (f *failure) Error() string {
	if len(f.faults) > 0 {
		return f.detail + ": " + strings.Join(f.faults, "; ")
	}
	return f.detail
}

func failf(status int, format string, args ...any) error {
	return &failure{status: status, detail: fmt.Sprintf(format, args...)}
}

// invalid refuses a body that breaks its schema.
func invalid(faults ...string) error {
	return &failure{http.StatusUnprocessableEntity, "the request is not valid", faults}
}

// problem is an error body of version 2 (RFC 9457).
type problem struct {
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Errors []string `json:"errors,omitempty"`
}

// message is an error body of version 1.
type message struct {
	Message string `json:"message"`
}

// fail answers an error in the form of the call's version.
func (s *server) fail(c *call, err error) {
	f := s.explain(c, err)
	if c.version == 1 {
		answer(c.writer, statusV1(c, f), "application/json", message{f.Error()})
		return
	}
	answer(c.writer, f.status, "application/problem+json", problem{http.StatusText(f.status), f.status, f.detail, f.faults})
}

// statusV1 knows 400 for all that is wrong with a body, and for the deletion of
// what does not exist (service description, Endpoints A).
func statusV1(c *call, f *failure) int {
	switch {
	case f.status == http.StatusUnprocessableEntity:
		return http.StatusBadRequest
	case f.status == http.StatusNotFound && c.http.Method == http.MethodDelete && c.id != "":
		return http.StatusBadRequest
	}
	return f.status
}

// explain finds the answer to an error. What is the deployment's own failure
// goes to the log, and the caller learns the id that leads to it.
func (s *server) explain(c *call, err error) *failure {
	var (
		known   *failure
		refusal store.Refusal
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &refusal):
		return &failure{status: http.StatusBadRequest, detail: string(refusal)}
	case errors.Is(err, store.ErrNotFound):
		return &failure{status: http.StatusNotFound, detail: err.Error()}
	}
	if status, text := unavailable.Answer(c.ctx(), c.writer.Header(), err); status != 0 {
		if errors.Is(err, httplimit.ErrMemory) {
			c.writer.Header().Set("Connection", "close") // else the rest of the body is read
		}
		return &failure{status: status, detail: text}
	}
	if c.ctx().Err() != nil { // nobody waits for the answer
		return &failure{status: http.StatusServiceUnavailable, detail: "the request was withdrawn"}
	}
	id := c.writer.Header().Get(requestID)
	s.Logger.ErrorContext(c.ctx(), "a request of the management API failed", "error", err, "request_id", id)
	return &failure{status: http.StatusInternalServerError, detail: "internal error; the log has more of it under the request id " + id}
}

// answer writes a body, and none for 204.
func answer(w http.ResponseWriter, status int, contentType string, body any) {
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		panic(err) // wire types always have a JSON form
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(buffer.Bytes()) // the caller is gone when this fails
}
