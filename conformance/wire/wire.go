// Package wire sends the requests of the suite and records the exchanges. It knows
// HTTP and nothing of the API.
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

// Request is one request, as it is sent.
type Request struct {
	Method string
	URL    string
	Header http.Header // Authorization is here too
	Body   []byte
	// Chunked sends the body without its length.
	Chunked bool
	// Stalled announces a body and never sends it: the request stays open until
	// it is cancelled, or answered without its body.
	Stalled bool
	// Unread leaves all but the beginning of the answer's body unread until the request
	// is cancelled: a long body keeps the request in flight, and a short one does not.
	Unread bool
	// SkipBody reads no body of a 2xx.
	SkipBody bool
	// MayHangUp says that the target may close the connection instead of answering, since
	// the body is too large.
	MayHangUp bool
	// Quiet keeps the exchange out of traces, for loads of hundreds of requests.
	Quiet bool
}

// unreadPrefix is how many bytes of an Unread body are read: much less than a connection
// buffers.
const unreadPrefix = 4 << 10

// Exchange is a request and its answer, or the error.
type Exchange struct {
	Request Request
	Status  int // 0 where no answer came
	Header  http.Header
	Body    []byte
	Err     error // why there is no answer, or only a part of one
	// Sent and Received bracket the exchange, by the target's clock.
	Sent, Received time.Time

	mu     sync.Mutex
	parsed bool
	json   any
	bad    error
}

// JSON returns the body's value, with numbers as json.Number. It is cached until Forget
// and must not be changed.
func (x *Exchange) JSON() (any, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.parsed {
		return x.json, x.bad
	}
	x.parsed = true
	d := json.NewDecoder(bytes.NewReader(x.Body))
	d.UseNumber()
	if x.bad = d.Decode(&x.json); x.bad == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			x.json, x.bad = nil, errors.New("more than one JSON value")
		}
	}
	return x.json, x.bad
}

// Forget drops what JSON parsed: exchanges are kept to the end of a run.
func (x *Exchange) Forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.parsed, x.json, x.bad = false, nil, nil
}

// largeBody is the size, in bytes, above which a request is sent with Expect: 100-continue,
// as curl does: a target that refuses a body half way may close the connection before its
// answer is read.
const largeBody = 1 << 20

// MaxBody bounds the bytes that are read of an answer.
const MaxBody = 64 << 20

// ErrTooLong says that an answer was longer than MaxBody.
var ErrTooLong = errors.New("the answer is longer than 64 MiB")

// Do sends a request. now is the clock that brackets it.
func Do(ctx context.Context, client *http.Client, r Request, now func() time.Time) *Exchange {
	x := &Exchange{Request: r}
	var body io.Reader
	switch {
	case r.Stalled:
		body = stalledBody{ctx}
	case r.Chunked:
		body = io.MultiReader(bytes.NewReader(r.Body)) // of a kind whose length net/http does not know
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
		again := r
		again.URL = next
		y := Do(ctx, client, again, now)
		x.Status, x.Header, x.Body, x.Received, x.Err = y.Status, y.Header, y.Body, y.Received, y.Err
		return x
	}
	if err == nil {
		defer resp.Body.Close()
		decompress(resp)
		x.Status, x.Header = resp.StatusCode, resp.Header
		most := int64(MaxBody + 1)
		switch {
		case x.Status/100 != 2:
		case r.SkipBody:
			most = 0
		case r.Unread:
			most = unreadPrefix
		}
		x.Body, err = io.ReadAll(io.LimitReader(resp.Body, most))
		if err == nil && most == unreadPrefix && len(x.Body) == unreadPrefix {
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
