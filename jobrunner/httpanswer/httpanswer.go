// Package httpanswer writes the deployment's HTTP answers: JSON, and errors in the form of the
// requested API.
package httpanswer

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

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

// JSON writes a value as JSON. A 204 has no body.
func JSON(w http.ResponseWriter, status int, value any) {
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	Bytes(w, status, encode(value))
}

// Bytes writes encoded JSON.
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
