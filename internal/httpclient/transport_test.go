package httpclient

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A create whose TLS handshake or proxy fails was never sent: it is repeated, and its error says
// that it changed nothing.
func TestFailedConnectionSendsNothing(t *testing.T) {
	proxied := func(answer string) func(net.Conn) {
		return func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				c.Write([]byte(answer))
			}
			c.Close()
		}
	}
	for name, c := range map[string]struct {
		proxy bool
		serve func(net.Conn)
		want  string
	}{
		"the handshake ends early": {false, func(c net.Conn) { c.Read(make([]byte, 1<<16)); c.Close() }, "dial tcp: EOF (tried 4 times)"},
		"the server speaks HTTP": {false, func(c net.Conn) {
			c.Read(make([]byte, 1<<16))
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			c.Close()
		}, "server gave HTTP response to HTTPS client"},
		"the handshake never ends":    {false, func(net.Conn) {}, "no connection within 10s"},
		"the proxy refuses":           {true, proxied("HTTP/1.1 403 Forbidden\r\n\r\n"), "proxyconnect tcp: the proxy proxy:3128 answered 403 Forbidden (tried 4 times)"},
		"the proxy wants a password":  {true, proxied("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"), "the proxy proxy:3128 answered 407"},
		"the proxy drops connections": {true, proxied(""), "dial tcp: unexpected EOF (tried 4 times)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			transport := Pooled()
			under := transport.(dialing).RoundTripper.(*http.Transport)
			under.Proxy = func(*http.Request) (*url.URL, error) {
				if c.proxy {
					return url.Parse("http://user:secret@proxy:3128")
				}
				return nil, nil
			}
			under.DialContext = func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go c.serve(there)
				return here, nil
			}
			client := &Client{APIKey: "k", Timeout: time.Minute, RoundTripper: transport}
			err := client.Do(t.Context(), Call{Method: http.MethodPost, URL: "https://deployment/a", Body: map[string]any{}}, nil)
			failure, ok := errors.AsType[*Error](err)
			if !ok || failure.Ambiguous() || failure.Tries < 2 || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "This request changed nothing.") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}
