// Package wire sends the requests of the suite and records the exchanges. It doesn't depend on the APIs.
package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

type Request struct {
	Method string
	URL    string
	Header http.Header // including Authorization
	Body   []byte
	// Chunked sends the body without Content-Length.
	Chunked bool
	// Stalled announces a body and never sends it, until the client cancels or the target responds.
	Stalled bool
	// Unread reads only the beginning of the answer's body. If the body is longer, the request stays in
	// flight until it is cancelled.
	Unread bool
	// SkipBody doesn't read the body of a 2xx.
	SkipBody bool
	// MayHangUp says that the target may close the connection, because the body is too large.
	MayHangUp bool
	// Try, if not nil, returns a context for one attempt, and a function to call after the attempt. So a
	// caller can limit the time of each attempt, without the waits between attempts.
	Try func(context.Context) (context.Context, context.CancelFunc)
	// Quiet keeps the exchange out of traces, for load tests with hundreds of requests.
	Quiet bool
}

// NewRequest returns a request with a key as bearer token. If body is empty, it has none.
func NewRequest(method, url, key, body string) Request {
	r := Request{Method: method, URL: url, Header: http.Header{"Authorization": {"Bearer " + key}}}
	if body != "" {
		r.Body, r.Header["Content-Type"] = []byte(body), []string{"application/json"}
	}
	return r
}

// unreadPrefix is how many bytes of an Unread body are read, far fewer than a connection buffers.
const unreadPrefix = 4 << 10

// Exchange is a request with its answer or error.
type Exchange struct {
	Request Request
	Status  int // 0 if no answer came
	Header  http.Header
	Body    []byte
	Err     error // why the answer is missing or incomplete
	// Sent and Received are the target's times before and after the exchange.
	Sent, Received time.Time

	mu      sync.Mutex
	parsed  bool
	json    any
	jsonErr error
}

// JSON returns the body's value, with numbers as json.Number. It is cached and must not be changed.
func (x *Exchange) JSON() (any, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.parsed {
		return x.json, x.jsonErr
	}
	x.parsed = true
	x.json, x.jsonErr = Decode(x.Body)
	return x.json, x.jsonErr
}

// Decode returns the value of a JSON text, with numbers as json.Number.
func Decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// ForgetJSON drops the value that JSON cached, since exchanges are kept until the end of a run.
func (x *Exchange) ForgetJSON() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.parsed, x.json, x.jsonErr = false, nil, nil
}

// largeBody is the size in bytes above which a request has the header Expect: 100-continue, as with curl.
// Otherwise a target that refuses the body may close the connection before its answer is read.
const largeBody = 1 << 20

// maxBody is how many bytes of an answer are read.
const maxBody = 64 << 20

// Do sends a request. now is the clock for Sent and Received.
func Do(ctx context.Context, client *http.Client, r Request, now func() time.Time) *Exchange {
	x := &Exchange{Request: r}
	var body io.Reader
	switch {
	case r.Stalled:
		body = stalledBody{ctx}
	case r.Chunked:
		body = io.MultiReader(bytes.NewReader(r.Body)) // net/http doesn't know its length
	case r.Body != nil:
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil {
		x.Err = err
		return x
	}
	maps.Copy(req.Header, r.Header)
	if r.Stalled {
		req.ContentLength = 1 << 10
	}
	req.Close = r.Method == http.MethodHead // net/http logs the body that some servers send
	if len(r.Body) > largeBody {
		req.Header.Set("Expect", "100-continue")
	}
	x.Sent = now()
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") { // a server may send it without an Accept-Encoding
			resp.Body = &gzipBody{raw: resp.Body}
		}
		x.Status, x.Header = resp.StatusCode, resp.Header
		limit := int64(maxBody + 1)
		switch {
		case x.Status/100 != 2:
		case r.SkipBody:
			limit = 0
		case r.Unread:
			limit = unreadPrefix
		}
		x.Body, err = io.ReadAll(io.LimitReader(resp.Body, limit))
		if err == nil && limit == unreadPrefix && len(x.Body) == unreadPrefix {
			<-ctx.Done()
			err = ctx.Err()
		}
		if err == nil && len(x.Body) > maxBody {
			err = errors.New("the answer is longer than 64 MiB")
		}
	}
	x.Received, x.Err = now(), err
	return x
}

// stalledBody is a body that is never sent.
type stalledBody struct{ ctx context.Context }

func (s stalledBody) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// gzipBody reads the gzip header on the first read, since an empty body has none.
type gzipBody struct {
	raw    io.ReadCloser
	reader *gzip.Reader // nil before the first read
}

func (u *gzipBody) Read(p []byte) (n int, err error) {
	if u.reader == nil {
		if u.reader, err = gzip.NewReader(u.raw); err != nil {
			return 0, err // io.EOF for an empty body
		}
	}
	return u.reader.Read(p)
}

func (u *gzipBody) Close() error { return u.raw.Close() }

// Secrets are values that no output may contain. They are replaced by value, so no pattern
// has to guess how a secret looks. The zero Secrets is empty.
type Secrets struct {
	mu     sync.RWMutex
	values []secret // longest first, since one may contain another
}

type secret struct{ value, shown string }

// Add makes a value secret. Output shows $name instead. Values shorter than four characters
// are ignored, since they would occur everywhere.
func (s *Secrets) Add(name, value string) {
	if len(value) < 4 {
		return
	}
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for _, escapes := range []bool{true, false} { // of HTML in JSON
		var quoted strings.Builder
		e := json.NewEncoder(&quoted)
		e.SetEscapeHTML(escapes)
		_ = e.Encode(value) // can't fail for a string
		forms = append(forms, strings.TrimSuffix(quoted.String(), "\"\n")[1:])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range forms {
		if !slices.ContainsFunc(s.values, func(x secret) bool { return x.value == v }) {
			s.values = append(s.values, secret{v, "$" + name})
		}
	}
	slices.SortStableFunc(s.values, func(a, b secret) int { return len(b.value) - len(a.value) })
}

// Cut returns the first n bytes of a text, redacted. A secret across the end is redacted as
// a whole; a cut before redaction would show half of it.
func (s *Secrets) Cut(text []byte, n int) string {
	n = min(n, len(text))
	s.mu.RLock()
	defer s.mu.RUnlock()
	var b strings.Builder
next:
	for i := 0; i < n; {
		for _, x := range s.values {
			if len(text)-i >= len(x.value) && string(text[i:i+len(x.value)]) == x.value {
				b.WriteString(x.shown)
				i += len(x.value)
				continue next
			}
		}
		b.WriteByte(text[i])
		i++
	}
	return strings.ToValidUTF8(b.String(), "")
}

func (s *Secrets) Redact(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, x := range s.values {
		text = strings.ReplaceAll(text, x.value, x.shown)
	}
	return text
}

func (s *Secrets) RedactAll(texts []string) (redacted []string) {
	for _, text := range texts {
		redacted = append(redacted, s.Redact(text))
	}
	return redacted
}
