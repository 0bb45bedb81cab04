// Package httplimit bounds what clients may cost an HTTP server before and
// while it serves them: open connections, the time that a slow body or a client
// that does not read its answer holds one, and the memory of bodies.
package httplimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// The least speed of a client: each piece of this many bytes has so long, which
// is 4 KiB/s. At that speed a body of 20 MiB takes 85 minutes and is accepted.
const (
	pieceBytes = 80 << 10
	pieceTime  = 20 * time.Second
)

const (
	// unhurriedTime is how long a body that a program of the user's own reads may
	// pause: its protocol may be a conversation.
	unhurriedTime = time.Minute
	// drainTime is how long the rest of a body is waited for that no handler read,
	// and drainBytes how much of it is read, so that the connection can be used
	// again.
	drainTime  = 500 * time.Millisecond
	drainBytes = 256 << 10
)

// ErrSlowBody says that a body arrives too slowly. Its answer is 408.
var ErrSlowBody = fmt.Errorf("the body arrives too slowly: send at least %d KiB in every %s", pieceBytes>>10, pieceTime)

// Bodies has the bodies of next's requests arrive with a least speed, and
// answers without waiting for a body that next does not read.
func Bodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 || r.Body == nil {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{from: r.Body, conn: http.NewResponseController(w), piece: pieceTime, least: pieceBytes, expect: r.Header.Get("Expect") != ""}
		r.Body = b
		next.ServeHTTP(&answer{ResponseWriter: w, body: b}, r)
		b.end(w.Header())
	})
}

// Unhurried lets the body of a request pause, for up to a minute: another
// program reads it as it arrives.
func Unhurried(r *http.Request) {
	if b, ok := r.Body.(*body); ok {
		b.piece, b.least, b.foreign = unhurriedTime, 1, true
	}
}

// body is a request's body with a least speed.
type body struct {
	from io.ReadCloser
	conn *http.ResponseController

	piece time.Duration // a piece of least bytes has so long
	least int
	// foreign tells that another goroutine may read it while the answer begins.
	foreign bool
	expect  bool // the client sends it once the handler reads it

	begun  bool
	waited time.Duration // for the current piece
	got    int           // of the current piece
	err    error         // that ended it

	complete atomic.Bool // it was read to its end
	closed   atomic.Bool
	served   atomic.Bool // the handler has returned: the connection is another request's
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	b.begun = true
	start := time.Now()
	b.deadline(start.Add(b.piece - b.waited))
	n, err := b.from.Read(p)
	b.waited += time.Since(start)
	if b.got += n; b.got >= b.least {
		b.got, b.waited = 0, 0
	}
	switch {
	case err == nil && b.waited < b.piece:
		return n, nil
	case err == nil || errors.Is(err, os.ErrDeadlineExceeded):
		err = ErrSlowBody
	}
	b.err = err
	b.complete.Store(errors.Is(err, io.EOF))
	b.deadline(time.Time{}) // net/http goes on to watch the connection
	return n, err
}

// Close reads the rest, as net/http does, for a moment.
func (b *body) Close() error {
	if !b.complete.Load() {
		b.deadline(time.Now().Add(drainTime))
	}
	err := b.from.Close()
	b.closed.Store(true)
	b.deadline(time.Time{})
	return err
}

// deadline fails on what is not a connection: there is nothing to wait for then.
func (b *body) deadline(at time.Time) {
	if !b.served.Load() {
		_ = b.conn.SetReadDeadline(at)
	}
}

// drain reads what has arrived of a body before its answer begins. net/http
// would wait for the rest without end, unless the connection is to be closed.
func (b *body) drain(h http.Header) {
	if b.complete.Load() || b.expect && !b.begun {
		return
	}
	if !b.foreign && !b.closed.Load() && b.err == nil {
		b.deadline(time.Now().Add(drainTime))
		if _, err := io.CopyN(io.Discard, b.from, drainBytes); errors.Is(err, io.EOF) {
			b.err = io.EOF
			b.complete.Store(true)
			b.deadline(time.Time{})
			return
		}
		b.err = http.ErrBodyReadAfterClose
	}
	h.Set("Connection", "close")
}

// end leaves net/http a moment for the rest of the body.
func (b *body) end(h http.Header) {
	b.drain(h)
	if !b.complete.Load() && !b.closed.Load() {
		b.deadline(time.Now().Add(drainTime))
	}
	b.served.Store(true)
}

// answer drains the body before it begins.
type answer struct {
	http.ResponseWriter
	body  *body
	begun bool
}

func (a *answer) begin(status int) {
	if !a.begun && status >= http.StatusOK {
		a.begun = true
		a.body.drain(a.Header())
	}
}

func (a *answer) WriteHeader(status int) {
	a.begin(status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
