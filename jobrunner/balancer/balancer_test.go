package balancer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

const key = "key-of-the-deployment"

// one is a pool with at most one worker.
type one struct {
	address string
	open    sync.WaitGroup // a response may be read before done is called
}

func (o *one) Pick(ctx context.Context, _ string) (string, func(), error) {
	if o.address == "" {
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
	o.open.Add(1)
	return o.address, o.open.Done, nil
}

func handler(w Workers) http.Handler {
	return New(Config{Workers: w, Keys: apikey.New(key), Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler)})
}

// serve starts a worker with the handler f, and a balancer in front of it.
func serve(t *testing.T, f http.HandlerFunc) (base string, pool *one) {
	t.Helper()
	worker := httptest.NewServer(f)
	t.Cleanup(worker.Close)
	address := must.Do(url.Parse(worker.URL))(t)
	pool = &one{address: address.Host}
	front := httptest.NewServer(handler(pool))
	t.Cleanup(front.Close)
	return front.URL + "/v2/ep1", pool
}

func do(t *testing.T, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	r := must.Do(http.NewRequestWithContext(t.Context(), method, url, body))(t)
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp := must.Do(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	text := must.Do(io.ReadAll(resp.Body))(t)
	return resp, string(text)
}

func TestARequestReachesTheWorkerAsItIs(t *testing.T) {
	base, pool := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Mine", "yes")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s|%s|%s|%s", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, body, r.Header.Get("Authorization"), r.Header.Get("X-Forwarded-Proto"))
	})
	for path, want := range map[string]string{
		"/a%2Fb/c?x=1&y": "PUT /a%2Fb/c x=1&y|hello||http",
		"":               "PUT / |hello||http",
		"/ping":          "PUT /ping |hello||http",
		"/ping/worker-1": "PUT /ping/worker-1 |hello||http",
	} {
		resp, got := do(t, "PUT", base+path, strings.NewReader("hello"))
		must.Hold(t, got == want && resp.StatusCode == http.StatusTeapot && resp.Header.Get("X-Mine") == "yes", path, resp.StatusCode, got, want)
	}
	_, got := do(t, "GET", base, nil, "X-Forwarded-Proto", "https")
	must.Hold(t, strings.HasSuffix(got, "|https"), "behind a proxy with TLS:", got)
	pool.open.Wait()
}

func TestAWrongKeyReachesNoWorker(t *testing.T) {
	var reached atomic.Bool
	base, _ := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	resp, _ := do(t, "GET", base+"/x", nil, "Authorization", "Bearer other")
	must.Hold(t, resp.StatusCode == http.StatusUnauthorized && !reached.Load(),
		"status", resp.StatusCode, "worker reached:", reached.Load())
}

func TestWhatAWorkerStreamsArrivesAtOnce(t *testing.T) {
	read := make(chan struct{})
	base, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-read // write the rest after the first part was read
		fmt.Fprintln(w, "second")
	})
	r := must.Do(http.NewRequestWithContext(t.Context(), "GET", base+"/x", nil))(t)
	r.Header.Set("Authorization", "Bearer "+key)
	resp := must.Do(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{"first", "second"} {
		must.Require(t, lines.Scan() && lines.Text() == want, "got", lines.Text(), "want", want)
		if want == "first" {
			close(read)
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
		resp.StatusCode, body, "after", tries.Load(), "tries")
	pool.open.Wait()
}

func TestAClientThatGoesAwayEndsTheRequest(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	base, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(t.Context())
	r := must.Do(http.NewRequestWithContext(ctx, "GET", base+"/x", nil))(t)
	r.Header.Set("Authorization", "Bearer "+key)
	go func() { <-began; cancel() }()
	resp, err := http.DefaultClient.Do(r)
	if err == nil {
		resp.Body.Close()
	}
	must.FailWith(t, err, context.Canceled)
	<-ended
}

// A protocol other than HTTP after the handshake, such as WebSocket.
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
	r := must.Do(http.NewRequestWithContext(t.Context(), "GET", base+"/socket", nil))(t)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Connection", "Upgrade")
	resp := must.Do(http.DefaultTransport.RoundTrip(r))(t)
	must.Require(t, resp.StatusCode == http.StatusSwitchingProtocols, "status", resp.StatusCode)
	conn := resp.Body.(io.ReadWriteCloser)
	fmt.Fprintln(conn, "hello")
	line, err := bufio.NewReader(conn).ReadString('\n')
	must.Hold(t, line == "echo hello\n", "got", line, err)
	conn.Close()
	pool.open.Wait()
}

func TestARequestWaitsForAWorkerOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := httptest.NewRequest("GET", "/v2/ep1/x", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		answer, started := httptest.NewRecorder(), time.Now()
		handler(new(one)).ServeHTTP(answer, r)
		waited := time.Since(started)
		must.Hold(t, waited == readyTimeout && answer.Code == http.StatusBadRequest, answer.Code, "after", waited, answer.Body)
	})
}
