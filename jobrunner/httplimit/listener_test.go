package httplimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// remoteListener gives its connections remote addresses, in order.
type remoteListener struct {
	net.Listener
	addresses <-chan string
}

func (l remoteListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return remoteConn{c, &net.TCPAddr{IP: net.ParseIP(<-l.addresses), Port: 1}}, nil
}

type remoteConn struct {
	net.Conn
	address net.Addr
}

func (r remoteConn) RemoteAddr() net.Addr { return r.address }

// boundedServer is a server with limits, over TCP. Requests to /hold wait until release is closed.
type boundedServer struct {
	t         *testing.T
	address   string
	holding   chan struct{}
	release   chan struct{}
	addresses chan string
}

func serveBounded(t *testing.T, bounds httplimit.Config) *boundedServer {
	t.Helper()
	inner := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	b := &boundedServer{t: t, address: inner.Addr().String(), holding: make(chan struct{}), release: make(chan struct{}), addresses: make(chan string, 1)}
	listener := httplimit.Listen(remoteListener{inner, b.addresses}, bounds)
	server := &http.Server{ConnState: listener.ConnState, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			b.holding <- struct{}{}
			<-b.release
		}
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return b
}

// connect opens a connection from an address, and sends a request if path isn't empty.
func (b *boundedServer) connect(from, path string) *bufio.Reader {
	b.t.Helper()
	b.addresses <- from
	c := must.Do(net.Dial("tcp", b.address))(b.t)
	b.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if path != "" {
		must.Do(c.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n")))(b.t)
	}
	return bufio.NewReader(c)
}

// hold sends a request to /hold. It retries while the connection to be evicted isn't idle yet.
func (b *boundedServer) hold(from string) *bufio.Reader {
	b.t.Helper()
	for start := time.Now(); time.Since(start) < 30*time.Second; {
		r := b.connect(from, "/hold")
		refused := make(chan struct{})
		go func() {
			_, _ = r.Peek(1) // fails for some rejected connections
			close(refused)
		}()
		select {
		case <-b.holding:
			return r
		case <-refused:
		}
	}
	b.t.Fatal("every connection was rejected")
	return nil
}

// expectServed retries until a request from an address is answered 200.
func (b *boundedServer) expectServed(from string) {
	b.t.Helper()
	for {
		resp, err := http.ReadResponse(b.connect(from, "/"), nil)
		if err == nil && resp.StatusCode == 200 {
			return
		}
	}
}

func (b *boundedServer) expectStatus(from *bufio.Reader, want int) {
	b.t.Helper()
	status, body, _ := readAnswer(b.t, from)
	must.Hold(b.t, status == want && (want != 503 || strings.Contains(body, "too many open connections")), "answered", status, body, "want", want)
}

// Each address has a limit, and a /64 network of IPv6 counts as one address. This machine and load
// balancers have no limit. A connection can be evicted once its request ends.
func TestLimitPerAddress(t *testing.T) {
	b := serveBounded(t, httplimit.Config{PerAddress: 2, Proxies: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("::ffff:203.0.113.64/122")}})
	for _, pair := range [][2]string{{"192.0.2.1", "192.0.2.1"}, {"2001:db8::1", "2001:db8::2"}, {"::ffff:203.0.113.9", "203.0.113.9"}} {
		b.hold(pair[0])
		b.hold(pair[0])
		b.expectStatus(b.connect(pair[1], "/"), 503)
	}
	b.expectStatus(b.connect("192.0.2.2", "/"), 200)
	b.expectStatus(b.connect("2001:db8:0:1::1", "/"), 200)
	for _, exempt := range []string{"127.0.0.1", "::1", "198.51.100.7", "203.0.113.65"} {
		for range 4 {
			b.hold(exempt)
		}
	}
	close(b.release)
	b.expectServed("192.0.2.1")
}

// At the limit, a connection is evicted if it is idle or sent nothing for a second, but not with a request in flight.
func TestLimitOfAllConnections(t *testing.T) {
	b := serveBounded(t, httplimit.Config{Max: 3})
	silent := b.connect("192.0.2.1", "")
	idle := b.connect("192.0.2.1", "/")
	b.expectStatus(idle, 200)
	b.hold("192.0.2.2")
	b.hold("192.0.2.2") // evicts idle
	must.Hold(t, must.Err(idle.ReadByte()) != nil, "the idle connection is still open")
	b.hold("192.0.2.2") // evicts silent
	must.Hold(t, must.Err(silent.ReadByte()) != nil, "the connection that never sent a request is still open")
	b.expectStatus(b.connect("192.0.2.3", "/"), 503)
	close(b.release)
	b.expectServed("192.0.2.3")
}

// serveTCP serves a handler behind LimitBodies over TCP, because only TCP resets connections.
func serveTCP(t *testing.T, handler http.HandlerFunc) (address string) {
	t.Helper()
	inner := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	serve(t, inner, handler)
	return inner.Addr().String()
}

func serve(t *testing.T, inner net.Listener, handler http.HandlerFunc) {
	listener := httplimit.Listen(inner, httplimit.Config{})
	server := &http.Server{Handler: httplimit.LimitBodies(handler), ConnState: listener.ConnState, ConnContext: listener.ConnContext}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
}

// A client that writes its whole request first gets the response even if the handler ignored the body.
func TestResponseReachesWritingClient(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	backend := "http://" + serveTCP(t, refuse)
	for name, handler := range map[string]http.HandlerFunc{
		"unread": refuse,
		"read in part": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
			if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			}
		},
		"closed": func(w http.ResponseWriter, r *http.Request) {
			r.Body.Close()
			w.WriteHeader(http.StatusUnauthorized)
		},
		"writes nothing": func(http.ResponseWriter, *http.Request) {},
		"refused behind a proxy": func(w http.ResponseWriter, r *http.Request) {
			httplimit.AllowPauses(r)
			target, _ := url.Parse(backend)
			httputil.NewSingleHostReverseProxy(target).ServeHTTP(w, r)
		},
	} {
		for _, coding := range []string{"Content-Length: 41943040", "Transfer-Encoding: chunked", "Content-Length: 41943040\r\nExpect: 100-continue"} {
			t.Run(name+" "+coding, func(t *testing.T) {
				t.Parallel()
				conn := must.Do(net.Dial("tcp", serveTCP(t, handler)))(t)
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(3 * time.Minute))
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", coding)
				piece := strings.Repeat("x", 1<<20)
				if strings.Contains(coding, "chunked") {
					piece = "100000\r\n" + piece + "\r\n"
				}
				for range 40 {
					must.Do(io.WriteString(conn, piece))(t)
				}
				from := bufio.NewReader(conn)
				resp, err := http.ReadResponse(from, nil)
				if err == nil && resp.StatusCode == http.StatusContinue {
					resp, err = http.ReadResponse(from, nil)
				}
				must.Require(t, err == nil && resp.Close, "got the response", resp, err)
			})
		}
	}
}

// A client that never stops sending is disconnected.
func TestLingerIsBounded(t *testing.T) {
	for pause, want := range map[time.Duration]struct{ time, bytes int }{0: {0, 256}, time.Second / 4: {30, 120}} {
		synctest.Test(t, func(t *testing.T) {
			network := pipenet.Listen()
			serve(t, network, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
			conn, err := network.Dial(t.Context(), "", "")
			must.Succeed(t, err)
			go io.Copy(io.Discard, conn)
			start, piece, sent := time.Now(), make([]byte, 1<<20), 0
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", int64(1)<<40)
			for sent < 400 && err == nil {
				time.Sleep(pause)
				_, err = conn.Write(piece)
				sent++
			}
			took := int(time.Since(start).Seconds())
			must.Hold(t, err != nil && max(took-want.time, want.time-took, sent-want.bytes, want.bytes-sent) <= 3, "sending ended after", took, "s and", sent, "MiB, want", want)
		})
	}
}

// A request with two lengths is the last one on its connection, because a proxy may use the other length.
func TestTwoLengthsEndTheConnection(t *testing.T) {
	address := serveTCP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s;", r.Method, body)
	})
	for head, closes := range map[string]bool{
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n":         true,
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 44\r\n\r\n0\r\n\r\n":                      true,
		"POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello": true,
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello":                                                         false,
	} {
		conn := must.Do(net.Dial("tcp", address))(t)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, head+"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		text, _ := io.ReadAll(conn)
		must.Hold(t, strings.Contains(string(text), "GET ;") != closes && strings.Contains(string(text), "POST "), head, "and a GET were answered", string(text))
	}
}

// A read deadline holds for the Read in progress and for later ones.
func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, accepted := pipenet.Listen(), make(chan net.Conn)
		go func() { accepted <- must.Do(httplimit.Listen(network, httplimit.Config{}).Accept())(t) }()
		client := must.Do(network.Dial(t.Context(), "", ""))(t)
		defer client.Close()
		conn := <-accepted
		defer conn.Close()
		readUntil := func(want time.Duration, wantErr error) {
			t.Helper()
			start := time.Now()
			_, err := conn.Read(make([]byte, 1))
			must.ErrorIs(t, err, wantErr)
			must.Equal(t, time.Since(start), want, "duration of the Read")
		}
		conn.SetReadDeadline(time.Now().Add(time.Second))
		readUntil(time.Second, os.ErrDeadlineExceeded)
		readUntil(0, os.ErrDeadlineExceeded)
		for _, want := range []time.Duration{2 * time.Second, 4 * time.Second} {
			conn.SetReadDeadline(time.Now().Add(3 * time.Second))
			time.AfterFunc(time.Second, func() { conn.SetDeadline(time.Now().Add(want - time.Second)) })
			readUntil(want, os.ErrDeadlineExceeded)
		}
		conn.SetReadDeadline(time.Now().Add(time.Second))
		conn.SetDeadline(time.Time{})
		time.AfterFunc(time.Hour, func() { client.Write([]byte("x")) })
		readUntil(time.Hour, nil)
	})
}
