package httplimit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection with a minimum rate for writes.
type conn struct {
	net.Conn
	listener      *Listener
	address       netip.Prefix // of the client, for PerAddress; invalid if not counted
	evictableFrom time.Time    // valid while the connection waits for a request; guarded by Listener.mu
	lingers       atomic.Bool  // a response was sent before the whole request arrived
	closeOnce     sync.Once

	mu              sync.Mutex
	reads           int       // in progress
	deadline        time.Time // of reads
	appliedDeadline time.Time // the read deadline of Conn
}

// SetReadDeadline changes the deadline of Conn only when a Read is in progress or begins: net/http and
// LimitBodies replace most of the deadlines of a request before a Read, and each change costs a timer.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if c.reads == 0 {
		return nil
	}
	return c.applyDeadline()
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) applyDeadline() error {
	if c.deadline.Equal(c.appliedDeadline) {
		return nil
	}
	c.appliedDeadline = c.deadline
	return c.Conn.SetReadDeadline(c.deadline)
}

func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	err := c.applyDeadline()
	c.reads++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.reads--
		c.mu.Unlock()
	}()
	if err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Limits of a lingering close: rateBytes in each lingerWindow, up to lingerTime and lingerBytes.
const (
	lingerWindow = time.Second
	lingerTime   = 30 * time.Second
	lingerBytes  = 256 << 20
)

type connKey struct{}

// ConnContext is an http.Server.ConnContext hook that lets LimitBodies reach the connection.
func (l *Listener) ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Write sets a deadline for each rateBytes. It resets the connection of a slower client, which also
// drops the data that the kernel has buffered for the client.
func (c *conn) Write(p []byte) (written int, err error) {
	for first := true; first || len(p) > 0; first = false {
		piece := p[:min(len(p), rateBytes)]
		if err := c.SetWriteDeadline(time.Now().Add(rateInterval)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(piece)
		written, p = written+n, p[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if tcp, ok := c.Conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Close lingers if the client may still be sending. A second Close ends the lingering.
func (c *conn) Close() error {
	if c.lingers.Swap(false) && c.listener.life.Err() == nil {
		linger(c.Conn)
	}
	err := c.Conn.Close()
	c.closeOnce.Do(func() { c.listener.remove(c) })
	return err
}

// linger closes the sending half of a connection, and discards what the client sends.
// Closing a connection with unread data resets it. Many clients write the whole request
// before they read, and report the reset instead of the response.
func linger(c net.Conn) {
	_ = closeWrite(c)
	for end, remaining := time.Now().Add(lingerTime), int64(lingerBytes); remaining > 0 && time.Now().Before(end); remaining -= rateBytes {
		_ = c.SetReadDeadline(time.Now().Add(lingerWindow))
		if _, err := io.CopyN(io.Discard, c, rateBytes); err != nil {
			return
		}
	}
}

// CloseWrite closes the sending half, as net/http does before it closes a connection.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// ErrStopping is the cancellation cause of requests' contexts when the server stops.
var ErrStopping = errors.New("the deployment is stopping: try again when it is running")

// ServerStops reports whether a request's context ended because the server stops, not because the client left.
func ServerStops(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrStopping) }

// AnswerContext returns the context for answering a request. If the server's stop cancelled the request,
// this context isn't cancelled, so that the answer can read the final state.
func AnswerContext(ctx context.Context) context.Context {
	if ServerStops(ctx) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}
