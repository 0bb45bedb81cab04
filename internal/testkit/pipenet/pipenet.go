// Package pipenet is a network in memory: real HTTP without sockets, for a server and client in
// a bubble of testing/synctest, where time is virtual.
package pipenet

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Listener accepts connections from Dial.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Serve serves a handler until stop is called. The transport reaches it under every address.
func Serve(h http.Handler) (transport *http.Transport, stop func()) {
	l, server := Listen(), &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }() // until stop
	transport = &http.Transport{DialContext: l.Dial}
	return transport, func() {
		transport.CloseIdleConnections()
		_ = server.Close()
	}
}

func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener. Connections stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
