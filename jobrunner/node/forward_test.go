package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// pair is a node, and the leader of its endpoint e.
type pair struct {
	node   *Node
	url    string // of the endpoint at the node
	leader *httptest.Server
	stop   context.CancelCauseFunc // stops the node
}

// newPair starts a node and the leader. atLeader and atNode handle the requests that each serves itself.
func newPair(t *testing.T, atLeader, atNode http.HandlerFunc) *pair {
	t.Helper()
	other, node := newNode("other"), newNode("this")
	other.setLeader(engine.Leader{Own: true})
	p := &pair{node: node, leader: startServer(t.Context(), t, other.handler(atLeader))}
	node.setLeader(engine.Leader{Leadership: engine.Leadership{Process: "other"}, URL: p.leader.URL})
	base, stop := context.WithCancelCause(t.Context())
	p.url, p.stop = startServer(base, t, node.handler(atNode)).URL+"/v2/e/", stop
	return p
}

func startServer(base context.Context, t *testing.T, handler http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	listener := httplimit.Listen(server.Listener, httplimit.Config{})
	server.Listener, server.Config.ConnContext, server.Config.ConnState = listener, listener.ConnContext, listener.ConnState
	server.Config.BaseContext = func(net.Listener) context.Context { return base }
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func newNode(folderID string) *Node {
	return New(Config{FolderID: folderID, Logger: slog.New(slog.DiscardHandler)})
}

func (n *Node) setLeader(leader engine.Leader) { n.places.endpoints.Store("e", place{Leader: leader}) }

func (n *Node) handler(own http.HandlerFunc) http.Handler {
	toLeader := n.forwardToLeader(own)
	return httplimit.LimitBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { toLeader(w, r, "e") }))
}

func (p *pair) send(t *testing.T, method, path, body string) (status int, text string) {
	t.Helper()
	r := must.Do(http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body)))(t)
	r.Header.Set("Idempotency-Key", "1")
	r.Header.Set("Expect", "100-continue")
	resp := must.Do(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	return resp.StatusCode, string(must.Do(io.ReadAll(resp.Body))(t))
}

// ownRequest answers a request that a node serves itself.
func ownRequest(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "own %s %s", r.Method, body)
}

// onWait calls f once a request waits for a leader.
func (p *pair) onWait(f func()) {
	go func() { <-p.node.takeover; f() }()
}

// If the leader closes the connection, a request that may have taken effect isn't repeated, except a GET.
func TestForwardedRequestIsSentOnce(t *testing.T) {
	var tries atomic.Int64
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/warm") { // opens a connection that is reused
			w.Header().Set("X-Request-Id", "of the leader")
			return
		}
		tries.Add(1)
		conn, _, _ := http.NewResponseController(w).Hijack()
		conn.Close()
	}, ownRequest)
	for _, body := range []string{"", "{}"} {
		p.send(t, "GET", "warm", "")
		tries.Store(0)
		status, text := p.send(t, "POST", "run", body)
		must.Hold(t, status == http.StatusServiceUnavailable && tries.Load() == 1, "a POST is answered", status, text, "after", tries.Load(), "tries")
	}
	_, answer := p.send(t, "POST", "openai/v1/completions", "{}")
	must.Hold(t, strings.HasPrefix(answer, `{"error":{"message":`), "a POST below /openai is answered", answer)
	tries.Store(0)
	p.onWait(func() {
		p.onWait(func() { p.node.setLeader(engine.Leader{Own: true}) }) // after the GET has waited twice
	})
	_, text := p.send(t, "GET", "status/1", "")
	must.Hold(t, text == "own GET " && tries.Load() == 1, "a GET is answered", text, "after", tries.Load(), "tries")
}

// closedConn is a kept connection that the other node has closed: nothing can be written.
type closedConn struct {
	net.Conn
	closed *atomic.Bool
}

func (c closedConn) Write(b []byte) (int, error) {
	if c.closed.CompareAndSwap(true, false) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// If a kept connection has closed before anything of a request was written, another connection is used.
func TestUnwrittenRequestIsSentAgain(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(ownRequest))
	defer other.Close()
	transport, closed := new(http.Transport), new(atomic.Bool)
	f := newNode("this").newForwarder(transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return closedConn{c, closed}, err
	}
	for _, body := range []string{"", "", "{}"} {
		w := httptest.NewRecorder()
		must.Equal(t, f.send(w, httptest.NewRequest("POST", "/v2/e/run", strings.NewReader(body)), other.URL), answered)
		must.Equal(t, w.Body.String(), "own POST "+body)
		closed.Store(true)
	}
}

// A request waits while its leader can't be reached, until another node takes over.
func TestRequestWaitsForTakeover(t *testing.T) {
	next := httptest.NewServer(http.HandlerFunc(ownRequest))
	defer next.Close()
	for _, leader := range []engine.Leader{{Own: true}, {Leadership: engine.Leadership{Process: "next"}, URL: next.URL}} {
		p := newPair(t, nil, ownRequest)
		p.leader.Close()
		p.onWait(func() { p.node.setLeader(leader) })
		_, text := p.send(t, "POST", "run", "{}")
		must.Equal(t, text, "own POST {}")
	}
}

// The wait for a leader begins when the leader dies, however long it held the request.
func TestHeldRequestWaitsForTakeover(t *testing.T) {
	leader := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer leader.Close()
	synctest.Test(t, func(t *testing.T) {
		n, w := newNode("this"), httptest.NewRecorder()
		n.setLeader(engine.Leader{Leadership: engine.Leadership{Process: "other"}, URL: leader.URL})
		time.AfterFunc(3*leaderWait, func() { n.setLeader(engine.Leader{Own: true}) })
		// Time passes before the connection is used: a goroutine that reads from it would stop the virtual time.
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{ConnectDone: func(_, _ string, _ error) { time.Sleep(5 * leaderWait / 2) }})
		n.handler(ownRequest).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/v2/e/status-sync/1", nil))
		must.Equal(t, w.Body.String(), "own GET ")
	})
}

// Without a takeover the answer is 503. A request that was forwarded twice isn't forwarded again, and waits.
func TestRequestWithoutLeader(t *testing.T) {
	for _, forwarded := range [][]string{nil, {"a", "b"}} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode("this")
			if forwarded == nil {
				n.setLeader(engine.Leader{})
			} else {
				n.setLeader(engine.Leader{URL: "http://127.0.0.1:1"})
			}
			r, w, start := httptest.NewRequest("POST", "/v2/e/run", nil), httptest.NewRecorder(), time.Now()
			r.Header[forwardedHeader] = forwarded
			n.handler(ownRequest).ServeHTTP(w, r)
			waited := time.Since(start)
			must.Hold(t, w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "" && waited >= leaderWait && waited < leaderWait+time.Second, "the request is answered", w.Code, "after", waited)
		})
	}
}

// A node that released an endpoint passes a request on. An answer arrives even if the body never does.
func TestForwardedTwice(t *testing.T) {
	last := newNode("last")
	last.setLeader(engine.Leader{Own: true})
	leader := startServer(t.Context(), t, last.handler(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.ContentLength, " bytes by way of ", r.Header[forwardedHeader])
	}))
	first, second := newPair(t, nil, nil), newPair(t, nil, nil)
	second.node.FolderID = "second"
	second.node.setLeader(engine.Leader{Leadership: engine.Leadership{Process: "last"}, URL: leader.URL})
	first.node.setLeader(engine.Leader{Leadership: engine.Leadership{Process: "second"}, URL: strings.TrimSuffix(second.url, "/v2/e/")})
	for _, size := range []int{1, 21 << 20} {
		_, got := first.send(t, "POST", "runsync", strings.Repeat("x", size))
		must.Equal(t, got, fmt.Sprint(size, " bytes by way of [this second]"))
	}
	stalled, _ := io.Pipe()
	r := must.Do(http.NewRequestWithContext(t.Context(), "POST", first.url+"run", stalled))(t)
	r.ContentLength = 2
	resp := must.Do(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	must.Equal(t, resp.StatusCode, http.StatusOK)
}

// A request ends when its leader is gone, even if the connection to the leader stays open.
func TestRequestOfDeadLeaderEnds(t *testing.T) {
	var p *pair
	p = newPair(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		p.node.places.keepPeers(nil)
		<-r.Context().Done()
	}, ownRequest)
	status, text := p.send(t, "POST", "runsync", "{}")
	must.Equal(t, status, http.StatusServiceUnavailable, text)
}

// Each part of a stream is forwarded immediately, and the leader notices when the client disconnects.
func TestForwardedStream(t *testing.T) {
	gone := make(chan struct{})
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "part")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}, ownRequest)
	ctx, disconnect := context.WithCancel(t.Context())
	r := must.Do(http.NewRequestWithContext(ctx, "GET", p.url+"stream/1", nil))(t)
	resp := must.Do(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	must.Equal(t, must.Do(bufio.NewReader(resp.Body).ReadString('\n'))(t), "part\n")
	disconnect()
	<-gone
}

// If the node that forwarded a request stops, the leader answers before its wait for the job is over.
func TestNodeStopsDuringForwardedRequest(t *testing.T) {
	var p *pair
	p = newPair(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		p.stop(httplimit.ErrStopping)
		<-r.Context().Done()
		fmt.Fprint(w, "stopping: ", httplimit.ServerStops(r.Context()))
	}, ownRequest)
	status, text := p.send(t, "POST", "runsync", "{}")
	must.Hold(t, status == http.StatusOK && text == "stopping: true", "the request is answered", status, text, "want 200 stopping: true")
}

// An answer that is too long is truncated with an error.
func TestLongAnswerOfAnotherNode(t *testing.T) {
	for size, fails := range map[int]bool{maxPeerResponse: false, maxPeerResponse + 1: true} {
		other := startServer(t.Context(), t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) }))
		got := newNode("this").askOther(t.Context(), http.Header{}, engine.Node{URL: other.URL}, "/long")
		must.Hold(t, (got.err != nil) == fails && len(got.body) == maxPeerResponse, "of", size, "bytes", len(got.body), "arrived, with the error", got.err)
	}
}

// Nodes reach each other without the environment's proxy, which would get the API key.
func TestOthersAreAskedWithoutProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request went to the proxy") }))
	defer proxy.Close()
	transport := http.DefaultTransport.(*http.Transport)
	defer func(p func(*http.Request) (*url.URL, error)) { transport.Proxy = p }(transport.Proxy)
	transport.Proxy = http.ProxyURL(must.Do(url.Parse(proxy.URL))(t))
	got := newNode("this").askOther(t.Context(), http.Header{}, engine.Node{URL: "http://127.0.0.1:1"}, "/")
	must.Hold(t, got.err != nil && got.status == 0, "the other node answered", got.status)
}
