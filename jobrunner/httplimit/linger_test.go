package httplimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// serveTCP serves a handler behind Bodies on a TCP connection, because only TCP resets connections.
func serveTCP(t *testing.T, handler http.HandlerFunc) (address string) {
	t.Helper()
	inner := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	listener := httplimit.Listen(inner, httplimit.Connections{})
	server := &http.Server{Handler: httplimit.Bodies(handler), ConnState: listener.State, ConnContext: listener.Context}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return inner.Addr().String()
}

// A client that writes its whole request before it reads gets the response, even if the handler
// ignored the body.
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
			at, _ := url.Parse(backend)
			httputil.NewSingleHostReverseProxy(at).ServeHTTP(w, r)
		},
	} {
		for _, coding := range []string{"Content-Length: 41943040", "Transfer-Encoding: chunked"} {
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
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				must.Require(t, err == nil && resp.Close, resp, err)
			})
		}
	}
}

// A client that never stops is disconnected.
func TestLingerIsBounded(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", serveTCP(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	must.Succeed(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * time.Minute))
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", int64(1)<<40)
	piece, sent := make([]byte, 1<<20), 0
	for sent < 400<<20 && err == nil {
		var n int
		n, err = conn.Write(piece)
		sent += n
	}
	must.Hold(t, err != nil && sent >= 200<<20, "after", sent>>20, "MiB", err)
}

// A request that could have two lengths is the last one on its connection.
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
		must.Hold(t, strings.Contains(string(text), "GET ;") != closes && strings.Contains(string(text), "POST "), head, string(text))
	}
}
