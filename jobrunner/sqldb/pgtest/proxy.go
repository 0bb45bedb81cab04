package pgtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Proxy is a TCP proxy that can simulate a broken network. Create it outside of a synctest
// bubble, so that its goroutines don't block the bubble's time.
type Proxy struct {
	target  string
	addr    string
	calls   chan func() error             // functions for the proxy's goroutine, which isn't in a bubble
	done    chan error                    // the result of a call
	onReply atomic.Pointer[func() error]  // is called instead of sending the reply to the next commit
	gate    atomic.Pointer[chan struct{}] // delays the next commit until the channel is closed

	mu       sync.Mutex
	listener net.Listener // nil after Cut
	conns    []net.Conn
}

// NewProxy returns a proxy to the server at address, and the URL of that server through the proxy.
func NewProxy(t testing.TB, address string) (p *Proxy, proxyURL string) {
	t.Helper()
	u := must.Do(url.Parse(address))(t)
	p = &Proxy{target: u.Host, addr: "127.0.0.1:0", calls: make(chan func() error), done: make(chan error)}
	go func() {
		for f := range p.calls {
			p.done <- f()
		}
	}()
	p.Mend(t)
	t.Cleanup(func() {
		p.Cut()
		close(p.calls)
	})
	u.Host = p.addr
	return p, u.String()
}

// Mend accepts connections, at the start and after Cut.
func (p *Proxy) Mend(t testing.TB) {
	t.Helper()
	must.Succeed(t, p.call(p.mend))
}

// Cut breaks all connections and rejects new ones.
func (p *Proxy) Cut() { _ = p.call(p.cut) }

func (p *Proxy) call(f func() error) error {
	p.calls <- f
	return <-p.done
}

func (p *Proxy) mend() error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", p.addr)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.addr = l, l.Addr().String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(l, conn)
		}
	}()
	return nil
}

func (p *Proxy) cut() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return nil
	}
	err := p.listener.Close()
	p.listener = nil
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
	return err
}

// pass copies bytes in both directions until one side closes.
func (p *Proxy) pass(l net.Listener, client net.Conn) {
	defer func() { _ = client.Close() }()
	upstream, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = upstream.Close() }()
	p.mu.Lock()
	cut := p.listener != l
	p.conns = append(p.conns, client, upstream)
	p.mu.Unlock()
	if cut {
		return
	}
	go func() {
		_, _ = io.Copy(writer(func(b []byte) (int, error) {
			// This recognizes a commit: a transaction without results is sent as one batch, in which pgx names several prepared statements.
			if bytes.Count(b, []byte("stmtcache_")) > 2 {
				if release := p.gate.Swap(nil); release != nil {
					_ = client.Close()
					<-*release
				}
			}
			return upstream.Write(b)
		}), client)
		_ = upstream.Close()
	}()
	_, _ = io.Copy(writer(func(b []byte) (int, error) {
		// The server's reply to a successful commit.
		if bytes.Contains(b, []byte("COMMIT\x00")) {
			if onReply := p.onReply.Swap(nil); onReply != nil {
				return 0, errors.Join(io.ErrClosedPipe, (*onReply)())
			}
		}
		return client.Write(b)
	}), upstream)
}

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// LoseCommit lets the next commit succeed, but breaks the connection before its reply.
func (p *Proxy) LoseCommit() { p.onReply.Store(new(func() error { return nil })) }

func (p *Proxy) CutAtCommit() { p.onReply.Store(new(p.cut)) }

// HoldCommit breaks the client's connection at the next transaction, which the server gets when
// release is called, as if the network or the server had paused.
func (p *Proxy) HoldCommit() (release func()) {
	held := make(chan struct{})
	p.gate.Store(&held)
	return func() { close(held) }
}
