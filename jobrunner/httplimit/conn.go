package httplimit

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// conn is a connection with a minimum rate for writes.
type conn struct {
	net.Conn
	listener      *Listener
	address       netip.Prefix // of the client, for PerAddress; invalid: not counted
	evictableFrom time.Time    // while it waits for a request; guarded by Listener.mu
	closeOnce     sync.Once
}

// Write sets a deadline for each rateBytes. It resets the connection of a slower
// client, which also drops what the kernel has buffered for it.
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

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closeOnce.Do(func() { c.listener.remove(c) })
	return err
}

// CloseWrite closes the sending half, as net/http does before it closes a
// connection.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
