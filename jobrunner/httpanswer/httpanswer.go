// Package httpanswer writes HTTP answers: JSON, and errors in the form of the requested API.
package httpanswer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// RequestID is the header with a request's id, which is also in the log.
const RequestID = "X-Request-Id"

// SetRequestID returns the request id of an answer, and creates a missing one.
func SetRequestID(h http.Header) string {
	id := h.Get(RequestID)
	if id == "" {
		id = uuid.NewString()
		h.Set(RequestID, id)
	}
	return id
}

func JSON(w http.ResponseWriter, status int, value any) { Bytes(w, status, Encode(value)) }

func Bytes(w http.ResponseWriter, status int, body []byte) {
	write(w, status, "application/json", body)
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body))) // some clients can't read chunks
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails if the client has disconnected
}

// Encode returns JSON with a line break at its end.
func Encode(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // never: wire types have a JSON form
	}
	return text.Bytes()
}

// UsesTLS reports whether a request's client used TLS, even if a proxy terminates it.
func UsesTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// File is content that doesn't change while the server runs.
type File struct {
	Header  http.Header
	content []byte
}

func NewFile(contentType string, content []byte) File {
	sum := sha256.Sum256(content)
	return File{http.Header{
		"Content-Type":           {contentType},
		"Cache-Control":          {"no-cache"}, // revalidate: another release has another content
		"Etag":                   {strconv.Quote(base64.RawURLEncoding.EncodeToString(sum[:]))},
		"X-Content-Type-Options": {"nosniff"},
	}, content}
}

// ServeHTTP serves the content, or 304 to a client that already has it.
func (f File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), f.Header)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}

// Refusal is an answer that rejects a request. A 401 also has the header that asks for a bearer token.
type Refusal struct {
	Status     int
	Text       string
	Faults     []string // faults of the body
	Allow      []string // methods that the path allows
	RetryAfter string   // seconds; "" for no header
}

func Refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

func NotAllowed(r *http.Request, allow ...string) *Refusal {
	refusal := Refuse(http.StatusMethodNotAllowed, "%s allows %s, not %s", r.URL.Path, strings.Join(allow, ", "), r.Method)
	refusal.Allow = allow
	return refusal
}

func (r *Refusal) Error() string {
	if len(r.Faults) == 0 {
		return r.Text
	}
	return r.Text + ": " + strings.Join(r.Faults, "; ")
}

// OpenAI returns the body of OpenAIForm.
func (r *Refusal) OpenAI() []byte {
	kind := "invalid_request_error"
	if r.Status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	return bytes.TrimSpace(Encode(map[string]any{"error": map[string]string{"message": r.Error(), "type": kind}}))
}

// Form is the form of an API's errors.
type Form int

const (
	// ErrorForm is {"error": text}: the worker protocol, the operator's routes, and the job API except below /openai.
	ErrorForm Form = iota
	// MessageForm is {"message": text}: version 1 of the management API, which answers 400 to every invalid body and conflict.
	MessageForm
	// ProblemForm is version 2 of the management API (RFC 9457).
	ProblemForm
	// OpenAIForm is {"error": {"message": text, "type": …}}: OpenAI's clients show only the message of an object.
	OpenAIForm
)

// JobForm returns the form of the job API's errors at a path.
func JobForm(path string) Form {
	path = strings.TrimPrefix(strings.TrimPrefix(path, "/live"), "/v2/")
	if _, operation, _ := strings.Cut(path, "/"); strings.HasPrefix(operation, "openai/") {
		return OpenAIForm
	}
	return ErrorForm
}

type problem struct {
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Errors []string `json:"errors,omitempty"`
}

type message struct {
	Message string `json:"message"`
}

// BodyType returns the wire type of the forms MessageForm and ProblemForm.
func (f Form) BodyType() reflect.Type {
	if f == ProblemForm {
		return reflect.TypeFor[problem]()
	}
	return reflect.TypeFor[message]()
}

// BodyMedia returns the content type of an error.
func (f Form) BodyMedia() string {
	if f == ProblemForm {
		return "application/problem+json"
	}
	return "application/json"
}

func (f Form) WriteRefusal(w http.ResponseWriter, r *Refusal) {
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
	switch status := r.Status; f {
	case ProblemForm:
		write(w, status, f.BodyMedia(), Encode(problem{http.StatusText(status), status, r.Text, r.Faults}))
	case MessageForm:
		if status == http.StatusUnprocessableEntity || status == http.StatusConflict {
			status = http.StatusBadRequest
		}
		JSON(w, status, message{r.Error()})
	case OpenAIForm:
		Bytes(w, status, r.OpenAI())
	default:
		Bytes(w, r.Status, bytes.TrimSpace(Encode(map[string]string{"error": r.Error()})))
	}
}

// StatusClientGone is the status, in metrics and logs, of a request whose client has disconnected. It has no name in
// net/http. A 5xx would look like a fault of the deployment.
const StatusClientGone = 499

// Fail answers an error: a Refusal as it is, and a shortage of resources with 503 or 507. It answers any other
// error with 500 and logs it, unless the client has disconnected.
func (f Form) Fail(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	refusal := new(Refusal)
	if !errors.As(err, &refusal) {
		refusal = shortage(r.Context(), err)
	}
	switch {
	case refusal != nil:
	case r.Context().Err() != nil: // the client has disconnected
		refusal = Refuse(StatusClientGone, "the client cancelled the request")
	default:
		log.ErrorContext(r.Context(), "a request failed", "path", r.URL.Path, "error", err, "request", SetRequestID(w.Header()))
		refusal = f.Internal(w.Header())
	}
	f.WriteRefusal(w, refusal)
}

// Internal returns the answer for an internal error. Except in ErrorForm, its text has the request id of the log entry.
func (f Form) Internal(h http.Header) *Refusal {
	const text = "the deployment failed to answer: its log says why"
	if f == ErrorForm {
		return Refuse(http.StatusInternalServerError, text)
	}
	return Refuse(http.StatusInternalServerError, text+", under the request id %s", SetRequestID(h))
}

// shortage returns the answer for an error caused neither by the client nor by a bug: there is no
// memory for a body, the disk is full, the database doesn't answer, or the deployment stops. It returns nil for
// other errors. ctx is the request's context.
func shortage(ctx context.Context, err error) *Refusal {
	class := sqldb.Classify(err)
	switch {
	case errors.Is(err, httplimit.ErrMemory):
		return unavailable(httplimit.RetryAfter, err.Error())
	case class == sqldb.Full:
		return Refuse(http.StatusInsufficientStorage, "%s", sqldb.PublicText(err))
	case class != sqldb.Fault: // Fault is also the class of errors that don't come from the database
		return unavailable(sqldb.RetryAfter, sqldb.PublicText(err))
	case httplimit.ServerStops(ctx):
		return unavailable(httplimit.RetryAfter, httplimit.ErrStopping.Error())
	}
	return nil
}

func unavailable(retryAfter, text string) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Text: text, RetryAfter: retryAfter}
}

// BodyRefused returns the answer to a request whose body couldn't be read.
func BodyRefused(ctx context.Context, err error) *Refusal {
	tooLarge := new(http.MaxBytesError)
	switch {
	case errors.As(err, &tooLarge):
		return Refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, httplimit.ErrMemory), httplimit.ServerStops(ctx):
		return shortage(ctx, err)
	case errors.Is(err, httplimit.ErrSlowBody):
		return Refuse(http.StatusRequestTimeout, "%s", err)
	}
	return Refuse(http.StatusBadRequest, "the body could not be read: %s", err)
}
