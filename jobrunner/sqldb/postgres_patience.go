package sqldb

import (
	"context"
	"database/sql"
	"net"
	"time"
)

// acquire takes a connection of the pool. A pool that has none free for long is
// no better than a server that has none.
func acquire(ctx context.Context, pool *sql.DB) (*sql.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	conn, err := pool.Conn(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, errBusy
	}
	return conn, err
}

// limitAnswers has connections break on which the server leaves a question
// without an answer: it hangs, or the network swallows what it says.
func (p *postgres) limitAnswers() {
	p.dial = p.config.DialFunc
	p.config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := p.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &answeredConn{Conn: conn, p: p}, nil
	}
}

// answeredConn expects an answer within answerTimeout of each question.
type answeredConn struct {
	net.Conn
	p *postgres
}

func (c *answeredConn) Write(b []byte) (int, error) {
	deadline := time.Now().Add(answerTimeout)
	if c.p.unhurried.Load() > 0 {
		deadline = time.Time{}
	}
	if err := c.SetDeadline(deadline); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
