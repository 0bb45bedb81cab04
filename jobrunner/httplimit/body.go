// Package httplimit limits the resources that clients of an HTTP server can use: open connections, the
// time for which a slow client holds a connection, and the memory of bodies.
package httplimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// The minimum transfer rate of a client is rateBytes in each rateInterval, or 4 KiB/s.
// At that rate a body of 20 MiB takes 85 minutes.
const (
	rateBytes    = 80 << 10
	rateInterval = 20 * time.Second
)

const (
	// pauseTime is the longest pause in a body that AllowPauses was called for.
	pauseTime = time.Minute
	// drainTime and drainBytes limit how much of an unread body is discarded to reuse its connection.
	drainTime  = 500 * time.Millisecond
	drainBytes = 256 << 10
)

// ErrSlowBody is the error of a body below the minimum rate; the answer is 408.
var ErrSlowBody = errors.New("the body arrives too slowly")

// LimitBodies enforces the minimum rate on request bodies. If next answers without reading the body, the
// answer waits at most drainTime for the body.
func LimitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// RFC 9112, 6.1: the connection must end after a request with both Content-Length and
		// Transfer-Encoding, and after an HTTP/1.0 request with Transfer-Encoding. net/http
		// hides whether a request has both.
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		if r.ContentLength == 0 || r.Body == nil {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ctx: r.Context(), source: r.Body, conn: http.NewResponseController(w), interval: rateInterval, minBytes: rateBytes, expectsContinue: r.Header.Get("Expect") != ""}
		r.Body = b
		next.ServeHTTP(&AnswerWriter{ResponseWriter: w, Begin: func(int) { b.drain(w.Header()) }}, r)
		b.end(w.Header())
	})
}

// AllowPauses lets a body pause for up to a minute. It is for bodies that a worker's program reads as they
// arrive, because such a program may be interactive.
func AllowPauses(r *http.Request) {
	if b, ok := r.Body.(*body); ok {
		b.interval, b.minBytes, b.concurrentReads = pauseTime, 1, true
	}
}

type body struct {
	ctx    context.Context // of the request
	source io.ReadCloser
	conn   *http.ResponseController

	interval time.Duration // in which minBytes must arrive
	minBytes int
	// concurrentReads means that another goroutine may read the body while the answer begins.
	concurrentReads bool
	expectsContinue bool // the client waits for 100 Continue

	started  atomic.Bool
	waited   time.Duration // waiting time in the current interval
	received int           // bytes in the current interval
	readErr  error         // the first error, which every later Read returns

	complete atomic.Bool // read to its end
	closed   atomic.Bool
	served   atomic.Bool // the handler has returned: the connection belongs to another request
}

func (b *body) Read(p []byte) (int, error) {
	if b.readErr != nil {
		return 0, b.readErr
	}
	b.started.Store(true)
	start := time.Now()
	b.setDeadline(start.Add(b.interval - b.waited))
	n, err := b.source.Read(p)
	b.waited += time.Since(start)
	if b.received += n; b.received >= b.minBytes {
		b.received, b.waited = 0, 0
	}
	switch {
	case err == nil && b.waited < b.interval:
		return n, nil
	case err == nil || errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("%w: send at least %d bytes in every %s", ErrSlowBody, b.minBytes, b.interval)
	}
	b.readErr = err
	b.complete.Store(errors.Is(err, io.EOF))
	b.setDeadline(time.Time{}) // net/http continues to watch the connection
	return n, err
}

// Close discards the rest of the body within drainTime, as net/http does.
func (b *body) Close() error {
	if !b.complete.Load() {
		b.setDeadline(time.Now().Add(drainTime))
	}
	err := b.source.Close()
	b.closed.Store(true)
	b.setDeadline(time.Time{})
	return err
}

// setDeadline ignores errors: a writer without a connection has no deadlines.
func (b *body) setDeadline(at time.Time) {
	if !b.served.Load() {
		_ = b.conn.SetReadDeadline(at)
	}
}

// drain discards up to drainBytes of the body that arrive within drainTime, before the answer begins. If more
// is left, drain makes the connection close after the answer: otherwise net/http would wait for the rest forever.
func (b *body) drain(h http.Header) {
	if b.complete.Load() {
		return
	}
	awaitsContinue := b.expectsContinue && !b.started.Load() // a read would ask for the body
	if !awaitsContinue && !b.concurrentReads && !b.closed.Load() && b.readErr == nil {
		b.setDeadline(time.Now().Add(drainTime))
		if _, err := io.CopyN(io.Discard, b.source, drainBytes); errors.Is(err, io.EOF) {
			b.readErr = io.EOF
			b.complete.Store(true)
			b.setDeadline(time.Time{})
			return
		}
		b.readErr = http.ErrBodyReadAfterClose
	}
	h.Set("Connection", "close")
	if c, ok := b.ctx.Value(connKey{}).(*conn); ok {
		c.lingers.Store(true) // discards the rest of the client's data before it closes
	}
}

// end gives net/http drainTime for the rest of the body.
func (b *body) end(h http.Header) {
	b.drain(h)
	if !b.complete.Load() && !b.closed.Load() {
		b.setDeadline(time.Now().Add(drainTime))
	}
	b.served.Store(true)
}

// AnswerWriter calls Begin with the status before an answer begins. 1xx statuses, which may precede it, don't count.
type AnswerWriter struct {
	http.ResponseWriter
	Begin func(status int)
	began bool
}

func (a *AnswerWriter) begin(status int) {
	if !a.began && status >= http.StatusOK {
		a.began = true
		a.Begin(status)
	}
}

func (a *AnswerWriter) WriteHeader(status int) {
	a.begin(status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *AnswerWriter) Write(p []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *AnswerWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }
