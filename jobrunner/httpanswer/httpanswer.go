// Package httpanswer writes the deployment's HTTP answers: JSON, and errors in the form of the
// requested API.
package httpanswer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// RequestID is the header with a request's id, which is also in the log.
const RequestID = "X-Request-Id"

// SetRequestID returns the request id of an answer, and creates one if the answer
// has none.
func SetRequestID(h http.Header) string {
	id := h.Get(RequestID)
	if id == "" {
		id = uuid.NewString()
		h.Set(RequestID, id)
	}
	return id
}

// JSON writes a value as JSON.
func JSON(w http.ResponseWriter, status int, value any) { Bytes(w, status, encode(value)) }

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

// encode returns JSON with a line break at its end.
func encode(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // never: wire types have a JSON form
	}
	return text.Bytes()
}

// UsesTLS reports whether a request's client used TLS, which a proxy may end.
func UsesTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// File is content that doesn't change while the server runs.
type File struct {
	Header  http.Header
	content []byte
}

func NewFile(kind string, content []byte) File {
	sum := sha256.Sum256(content)
	return File{http.Header{
		"Content-Type":           {kind},
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
