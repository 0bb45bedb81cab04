package sqldb

import (
	"context"
	"database/sql"
	"net"
	"time"
)

// acquire acquires a connection of the pool. It returns errBusy after acquireTimeout.
func acquire(ctx context.Context, pool *sql.DB) (*sql.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	conn, err := pool.Conn(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, errBusy
	}
	return conn, err
}

// limitResponseTime breaks connections on which the server doesn't respond within
// responseTimeout, because it hangs or the network drops packets.
func (p *postgres) limitResponseTime() {
	p.dial = p.config.DialFunc
	p.config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := p.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &deadlineConn{Conn: conn, p: p}, nil
	}
}

// deadlineConn sets a deadline at each write, within which the response must arrive.
type deadlineConn struct {
	net.Conn
	p *postgres
}

func (c *deadlineConn) Write(b []byte) (int, error) {
	deadline := time.Now().Add(responseTimeout)
	if c.p.migrations.Load() > 0 {
		deadline = time.Time{}
	}
	if err := c.SetDeadline(deadline); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
