// Package wire sends the requests of the suite and records the exchanges. It knows HTTP,
// but not the API.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Request is an HTTP request.
type Request struct {
	Method string
	URL    string
	Header http.Header // including Authorization
	Body   []byte
	// Chunked sends the body without Content-Length.
	Chunked bool
	// Stalled announces a body and never sends it. The request stays open until it is
	// cancelled or answered.
	Stalled bool
	// Unread reads only the beginning of the answer's body until the request is cancelled.
	// A long body keeps the request in flight, and a short one doesn't.
	Unread bool
	// SkipBody doesn't read the body of a 2xx.
	SkipBody bool
	// MayHangUp says that the target may close the connection without an answer, since the
	// body is too large.
	MayHangUp bool
	// Quiet keeps the exchange out of traces, for load tests with hundreds of requests.
	Quiet bool
}

// unreadPrefix is how many bytes of an Unread body are read, far fewer than a connection
// buffers.
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

// JSON returns the body's value, with numbers as json.Number. It is cached until Forget
// and must not be changed.
func (x *Exchange) JSON() (any, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.parsed {
		return x.json, x.jsonErr
	}
	x.parsed = true
	d := json.NewDecoder(bytes.NewReader(x.Body))
	d.UseNumber()
	if x.jsonErr = d.Decode(&x.json); x.jsonErr == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			x.json, x.jsonErr = nil, errors.New("more than one JSON value")
		}
	}
	return x.json, x.jsonErr
}

// Forget drops the value that JSON cached, since exchanges are kept until the end of a run.
func (x *Exchange) Forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.parsed, x.json, x.jsonErr = false, nil, nil
}

// largeBody is the size in bytes above which a request has the header Expect: 100-continue,
// as with curl. Otherwise a target that refuses the body may close the connection before
// its answer is read.
const largeBody = 1 << 20

// MaxBody is how many bytes of an answer are read.
const MaxBody = 64 << 20

// ErrTooLong says that an answer was longer than MaxBody.
var ErrTooLong = errors.New("the answer is longer than 64 MiB")

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
	for name, values := range r.Header {
		req.Header[name] = values
	}
	if r.Stalled {
		req.ContentLength = 1 << 10
	}
	if len(r.Body) > largeBody {
		req.Header.Set("Expect", "100-continue")
	}
	x.Sent = now()
	resp, err := client.Do(req)
	if next := slashRedirect(resp, req); err == nil && next != "" && !r.Stalled {
		resp.Body.Close()
		r.URL = next
		redirected := Do(ctx, client, r, now)
		x.Status, x.Header, x.Body, x.Received, x.Err = redirected.Status, redirected.Header, redirected.Body, redirected.Received, redirected.Err
		return x
	}
	if err == nil {
		defer resp.Body.Close()
		decompress(resp)
		x.Status, x.Header = resp.StatusCode, resp.Header
		limit := int64(MaxBody + 1)
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
		if err == nil && len(x.Body) > MaxBody {
			err = ErrTooLong
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
