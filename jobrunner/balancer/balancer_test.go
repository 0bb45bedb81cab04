package balancer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

const key = "key-of-the-deployment"

// singleWorker is a pool with at most one worker.
type singleWorker struct {
	address      string
	err          error          // of Pick
	openRequests sync.WaitGroup // a response may be read before done is called
}

func (w *singleWorker) Pick(ctx context.Context, _ string) (string, func(), error) {
	if w.err != nil {
		return "", nil, w.err
	}
	if w.address == "" {
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
	w.openRequests.Add(1)
	return w.address, w.openRequests.Done, nil
}

func newBalancer(w Workers) http.Handler {
	return New(Config{Workers: w, Keys: apikey.New(key), Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler)})
}

// serve starts a worker with the handler f, and a balancer in front of it.
func serve(t *testing.T, f http.HandlerFunc) (base string, pool *singleWorker) {
	t.Helper()
	worker := httptest.NewServer(f)
	t.Cleanup(worker.Close)
	pool = &singleWorker{address: worker.Listener.Addr().String()}
	front := httptest.NewServer(newBalancer(pool))
	t.Cleanup(front.Close)
	return front.URL + "/v2/ep1", pool
}

func open(t *testing.T, method, url string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	r := must.Do(http.NewRequestWithContext(t.Context(), method, url, body))(t)
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return must.Do(http.DefaultClient.Do(r))(t)
}

func do(t *testing.T, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	resp := open(t, method, url, body, header...)
	defer resp.Body.Close()
	return resp, string(must.Do(io.ReadAll(resp.Body))(t))
}

func send(b http.Handler, method, key string, body io.Reader) *httptest.ResponseRecorder {
	r, answer := httptest.NewRequest(method, "/v2/ep1/x", body), httptest.NewRecorder()
	r.Header.Set("Authorization", "Bearer "+key)
	b.ServeHTTP(answer, r)
	return answer
}

func TestARequestReachesTheWorkerAsItIs(t *testing.T) {
	base, pool := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Mine", "yes"+r.Header.Get("Expect"))
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s|%s|%s|%s", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, body, r.Header.Get("Authorization"), r.Header.Get("X-Forwarded-Proto")+" for "+r.Header.Get("X-Forwarded-For"))
	})
	for path, want := range map[string]string{
		"/a%2Fb/c?x=1;2&y=%&a": "PUT /a%2Fb/c x=1;2&y=%&a|hello||http",
		"":                     "PUT / |hello||http",
		"/ping":                "PUT /ping |hello||http",
		"/ping/worker-1":       "PUT /ping/worker-1 |hello||http",
	} {
		resp, got := do(t, "PUT", base+path, strings.NewReader("hello"), "Expect", "100-continue")
		must.Hold(t, got == want+" for 127.0.0.1" && resp.StatusCode == http.StatusTeapot && resp.Header.Get("X-Mine") == "yes", path, "got", resp.StatusCode, got, "want 418 and", want)
	}
	_, got := do(t, "GET", base, nil, "X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.1")
	must.Hold(t, strings.HasSuffix(got, "|https for 192.0.2.1, 127.0.0.1"), "behind a proxy with TLS:", got)
	pool.openRequests.Wait()
}

// The answer is 503 if the key may pick a worker of the endpoint, which has been removed.
func TestAWrongKeyReachesNoWorker(t *testing.T) {
	file := apikey.FileIn(t.TempDir())
	reader := must.Do(file.Add(apikey.Key{Name: "reader", Jobs: apikey.Read}))(t)
	other := must.Do(file.Add(apikey.Key{Name: "other", Endpoints: []string{"ep2"}}))(t)
	b := newBalancer(&singleWorker{err: errors.New("removed")})
	b.(*balancer).Keys = must.Do(apikey.New(key).With(file, time.Now, slog.Default()))(t)
	for request, status := range map[[2]string]int{{"OPTIONS", "wrong"}: 401, {"GET", "wrong"}: 401, {"GET", other}: 403, {"POST", reader}: 403, {"GET", reader}: 503} {
		answer := send(b, request[0], request[1], nil)
		must.Hold(t, answer.Code == status && (answer.Header().Get("Retry-After") != "") == (status == 503), request[0], "answered", answer.Code, "want", status)
	}
}

func TestStreamedResponseArrivesAtOnce(t *testing.T) {
	firstRead := make(chan struct{})
	base, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprintln(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-firstRead // write the rest after the first part was read
		fmt.Fprintln(w, "second")
	})
	resp := open(t, "GET", base+"/x", nil)
	defer resp.Body.Close()
	must.Equal(t, resp.Header.Get("X-Accel-Buffering"), "no", "nginx buffers the events")
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{"first", "second"} {
		must.Require(t, lines.Scan() && lines.Text() == want, "got", lines.Text(), "want", want)
		if want == "first" {
			close(firstRead)
		}
	}
}

func TestARequestIsSentOnce(t *testing.T) {
	var tries atomic.Int64
	base, pool := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/warm" {
			return
		}
		tries.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	do(t, "GET", base+"/warm", nil) // opens a connection that could be reused
	resp, body := do(t, "GET", base+"/x", nil)
	must.Hold(t, resp.StatusCode == http.StatusBadGateway && tries.Load() == 1 && strings.Contains(body, "once"),
		"answered", resp.StatusCode, body, "after", tries.Load(), "tries")
	pool.openRequests.Wait()
}

// The error says whether the client or the worker is at fault, and whether the request was sent.
func TestErrorsNameTheirCause(t *testing.T) {
	base, pool := serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	answer := send(newBalancer(pool), "POST", key, iotest.ErrReader(fmt.Errorf("%w: send more", httplimit.ErrSlowBody)))
	must.Hold(t, answer.Code == http.StatusRequestTimeout && strings.Contains(answer.Body.String(), "send more"), "a slow body was answered", answer.Code, answer.Body)
	pool.address = "127.0.0.1:1" // where nothing listens
	resp, body := do(t, "GET", base, nil)
	must.Hold(t, resp.StatusCode == http.StatusBadGateway && strings.Contains(body, "was not sent"), "an unreachable worker was answered", resp.StatusCode, body)
}

func TestAClientThatGoesAwayEndsTheRequest(t *testing.T) {
	requestStarted, requestEnded := make(chan struct{}), make(chan struct{})
	base, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(requestStarted)
		<-r.Context().Done()
		close(requestEnded)
	})
	ctx, cancel := context.WithCancel(t.Context())
	r := must.Do(http.NewRequestWithContext(ctx, "GET", base+"/x", nil))(t)
	r.Header.Set("Authorization", "Bearer "+key)
	go func() { <-requestStarted; cancel() }()
	resp, err := http.DefaultClient.Do(r)
	if err == nil {
		resp.Body.Close()
	}
	must.ErrorIs(t, err, context.Canceled)
	<-requestEnded
}

// After a handshake, such as WebSocket's, bytes pass in both directions.
func TestAnUpgradedConnectionPassesBothWays(t *testing.T) {
	base, pool := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		fmt.Fprint(conn, "echo "+line)
	})
	resp := open(t, "GET", base+"/socket", nil, "Upgrade", "websocket", "Connection", "Upgrade")
	must.Require(t, resp.StatusCode == http.StatusSwitchingProtocols, "status", resp.StatusCode)
	conn := resp.Body.(io.ReadWriteCloser)
	fmt.Fprintln(conn, "hello")
	line, err := bufio.NewReader(conn).ReadString('\n')
	must.Hold(t, line == "echo hello\n", "got", line, err)
	conn.Close()
	pool.openRequests.Wait()
}

func TestNoWorkerIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		answer := send(newBalancer(new(singleWorker)), "GET", key, nil)
		must.Hold(t, answer.Code == http.StatusBadRequest && answer.Header().Get("Retry-After") != "" && time.Since(started) == readyTimeout, "answered", answer.Code, "after", time.Since(started), answer.Body)
	})
}

// Balancer and worker agree where a request ends, so a body can't smuggle a request past the key.
func TestRequestSmuggling(t *testing.T) {
	const hidden = "GET /v2/ep1/hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	const body = "0\r\n\r\n" + hidden
	fullLength := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	for name, lines := range map[string]string{
		"two lengths":           "Content-Length: 0\r\n" + fullLength,
		"a length and chunks":   "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"chunks twice":          "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
		"chunks with a blank":   "Transfer-Encoding : chunked\r\n" + fullLength,
		"chunks, disguised":     "Transfer-Encoding: xchunked\r\n" + fullLength,
		"chunks on a new line":  "Transfer-Encoding:\r\n chunked\r\n" + fullLength,
		"a length with a sign":  "Content-Length: +5\r\n",
		"a line that ends bare": "X: y\nContent-Length: 0\r\n",
		"dropped on the way":    "Connection: Content-Length\r\n" + fullLength,
		"valid":                 fullLength,
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var paths []string
			base, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // the test sends truncated bodies
				mu.Lock()
				paths = append(paths, r.URL.Path)
				mu.Unlock()
			})
			address, _, _ := strings.Cut(strings.TrimPrefix(base, "http://"), "/")
			c := must.Do(net.Dial("tcp", address))(t)
			defer c.Close()
			fmt.Fprintf(c, "POST /v2/ep1/seen HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n%s", key, lines, body)
			answers := bufio.NewReader(c)
			var statuses []int
			for {
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					break
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				statuses = append(statuses, resp.StatusCode)
				_ = c.(*net.TCPConn).CloseWrite() // after the first response: the balancer treats it as a client that is gone
			}
			mu.Lock()
			defer mu.Unlock()
			must.Hold(t, !slices.Contains(paths, "/hidden") && len(paths) <= 1 && len(statuses) != 0, "the worker got", paths, "and the client", statuses)
			must.Hold(t, name != "valid" || len(paths) == 1 && statuses[0] == http.StatusOK, "the worker got", paths, "and the client", statuses)
		})
	}
}

// A client that closes its side for writing before the worker has responded doesn't get a 200.
func TestHalfClosedConnectionGetsNoResponse(t *testing.T) {
	base, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	address, _, _ := strings.Cut(strings.TrimPrefix(base, "http://"), "/")
	c := must.Do(net.Dial("tcp", address))(t)
	defer c.Close()
	fmt.Fprintf(c, "GET /v2/ep1/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", key)
	must.Succeed(t, c.(*net.TCPConn).CloseWrite())
	answer, _ := io.ReadAll(c)
	must.Hold(t, len(answer) == 0, "the client got", string(answer))
}

// For any path, the key is checked against its endpoint, and the worker gets the rest unchanged.
func FuzzSplit(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, rest string) {
		u, err := url.ParseRequestURI("/v2/" + rest)
		if err != nil {
			return
		}
		endpoint, target := split(u)
		must.Hold(t, !strings.Contains(endpoint, "/") && strings.HasPrefix(target.path, "/") && (u.Path == "/v2/"+endpoint+target.path || u.Path == "/v2/"+endpoint), rest, "is endpoint", endpoint, "and path", target.path)
		out := url.URL{Path: target.path, RawPath: target.rawPath}
		raw := out.EscapedPath()
		must.Equal(t, must.Do(url.PathUnescape(raw))(t), target.path, "the decoded path", raw, "of", rest)
		if i := strings.IndexByte(u.EscapedPath()[len("/v2/"):], '/'); i >= 0 && !strings.Contains(endpoint, "%") && u.RawPath != "" && strings.EqualFold(u.EscapedPath()[4:4+i], endpoint) && raw != u.EscapedPath()[4+i:] {
			t.Errorf("%q is sent on as %q", rest, raw)
		}
	},
		fuzz.Seed{"ep/a%2Fb/c?x=1"}, fuzz.Seed{"ep"}, fuzz.Seed{"ep/../../v1/templates"}, fuzz.Seed{"e%2Fp/x"}, fuzz.Seed{"ep//x//"}, fuzz.Seed{"%65p/%7e"},
	)
}
