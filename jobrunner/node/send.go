package node

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

const (
	forwardDialTimeout = 2 * time.Second
	forwardTimeout     = 5 * time.Second // waiting for a response about a pod or of the page
)

// forwarder sends requests to other nodes and passes their responses on.
type forwarder struct {
	proxy httputil.ReverseProxy
	node  *Node
}

// newForwarder completes a transport and returns a forwarder that uses it. The forwarder repeats a request, on another
// connection, only if it is a GET request or nothing of it was written.
func (n *Node) newForwarder(transport *http.Transport) *forwarder {
	transport.DialContext = (&net.Dialer{Timeout: forwardDialTimeout}).DialContext
	transport.DisableCompression = true
	transport.MaxIdleConnsPerHost = 1024
	// Less than all timeouts of the other node's server. These include its timeout for a request's header,
	// because a connection gets no request if the request for which it was opened uses another connection.
	transport.IdleConnTimeout = 5 * time.Second
	return &forwarder{node: n, proxy: httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			target := attemptOf(p.In).nodeURL
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = target.Scheme, target.Host, p.In.URL.RawQuery
			p.Out.Header.Add(forwardedHeader, n.FolderID)
			p.Out.Header.Del("Expect") // the body follows at once
			p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			p.SetXForwarded()
			p.Out.Header["X-Forwarded-Proto"] = p.In.Header["X-Forwarded-Proto"]
			p.Out.Host = p.In.Host
			if b, ok := p.In.Body.(*replayableBody); ok {
				b.setBody(p.Out)
			}
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) { attemptOf(r).err = err },
		ErrorLog:     slog.NewLogLogger(n.Logger.Handler(), slog.LevelDebug),
	}}
}

// maxReplayable is the size of the largest body that can be sent again, in bytes.
const maxReplayable = 16 << 10

// replayableBody is a small body that several attempts and a handler of this node can read. It isn't read
// in advance: the leader must see and count the request while a slow body still arrives.
type replayableBody struct {
	start  bytes.Buffer // what was read so far
	rest   io.Reader
	reader io.Reader // for a handler of this node
}

// open returns a reader of the whole body. The earlier readers must no longer be used.
func (b *replayableBody) open() (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(bytes.NewReader(b.start.Bytes()), io.TeeReader(b.rest, &b.start))), nil
}

func (b *replayableBody) Read(p []byte) (int, error) {
	if b.reader == nil {
		b.reader, _ = b.open()
	}
	return b.reader.Read(p)
}

func (*replayableBody) Close() error { return nil }

// setBody lets net/http send a request on another connection if the other node closes the kept connection
// before anything was written. With GetBody, or without a body, net/http would also repeat a POST that
// has an Idempotency-Key, after it may have taken effect.
func (b *replayableBody) setBody(r *http.Request) {
	r.Body, _ = b.open()
	if r.Header["Idempotency-Key"] == nil && r.Header["X-Idempotency-Key"] == nil {
		r.GetBody = b.open
	}
}

// attempt is one attempt to send a request to another node.
type attempt struct {
	nodeURL *url.URL
	conn    atomic.Pointer[net.Conn] // nil until there is a connection
	err     error                    // why there is no response
}

type attemptKey struct{}

func attemptOf(r *http.Request) *attempt { return r.Context().Value(attemptKey{}).(*attempt) }

type outcome int

const (
	answered   outcome = iota
	unanswered         // the node may have received the request; the client has no response yet
	unreached          // the node has not received the request
)

// send sends a request to the node at a URL. If this node stops, the other node ends its wait
// for a job early and responds. If the other node is gone, send returns at once.
func (f *forwarder) send(w http.ResponseWriter, r *http.Request, nodeURL string) outcome {
	r.Pattern = forwardedRoute
	httplimit.AllowPauses(r) // the other node requires the minimum rate
	if _, done := r.Body.(*replayableBody); !done && r.Body != nil && r.Method != http.MethodGet && r.ContentLength >= 0 && r.ContentLength <= maxReplayable {
		r.Body = &replayableBody{rest: r.Body}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	a := new(attempt)
	if a.nodeURL, a.err = url.Parse(nodeURL); a.err != nil {
		return unreached
	}
	defer context.AfterFunc(f.node.places.peerContext(nodeURL), cancel)()
	defer context.AfterFunc(r.Context(), func() {
		if conn := a.conn.Load(); conn != nil && httplimit.ServerStops(r.Context()) {
			if half, ok := (*conn).(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
				return // see serveLocally
			}
		}
		cancel()
	})()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { a.conn.Store(&got.Conn) }})
	f.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, attemptKey{}, a)))
	switch {
	case a.err == nil:
		return answered
	case r.Context().Err() != nil && !httplimit.ServerStops(r.Context()):
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	f.node.Logger.DebugContext(r.Context(), "forwarding a request failed", "path", r.URL.Path, "to", nodeURL, "error", a.err)
	if a.conn.Load() == nil {
		return unreached
	}
	return unanswered
}
