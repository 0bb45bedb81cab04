package httplimit

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// conn is a connection whose client must read what it is sent.
type conn struct {
	net.Conn
	listener *Listener
	address  netip.Prefix // that it counts for; invalid: for none
	since    time.Time    // it may make room while it waits for a request; guarded by the listener's lock
	closing  sync.Once
}

// Write gives each piece its time. A client that takes less is reset: what the
// system still holds for it is dropped too.
func (c *conn) Write(p []byte) (written int, err error) {
	for first := true; first || len(p) > 0; first = false {
		piece := p[:min(len(p), pieceBytes)]
		if err := c.SetWriteDeadline(time.Now().Add(pieceTime)); err != nil {
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
	c.closing.Do(func() { c.listener.remove(c) })
	return err
}

// CloseWrite tells the client that nothing more comes, which net/http does
// before it closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
