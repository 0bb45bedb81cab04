package balancer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The balancer and the worker agree where a request ends, so that a body can't smuggle a
// request past the key.
func TestNoRequestInARequest(t *testing.T) {
	const hidden = "GET /v2/ep1/hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	const body = "0\r\n\r\n" + hidden
	all := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	for name, lines := range map[string]string{
		"two lengths":           "Content-Length: 0\r\n" + all,
		"a length and chunks":   "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"chunks twice":          "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
		"chunks with a blank":   "Transfer-Encoding : chunked\r\n" + all,
		"chunks, disguised":     "Transfer-Encoding: xchunked\r\n" + all,
		"chunks on a new line":  "Transfer-Encoding:\r\n chunked\r\n" + all,
		"a length with a sign":  "Content-Length: +5\r\n",
		"a line that ends bare": "X: y\nContent-Length: 0\r\n",
		"dropped on the way":    "Connection: Content-Length\r\n" + all,
		"as it should be":       all,
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
			must.Hold(t, !slices.Contains(paths, "/hidden") && len(paths) <= 1, "the worker", paths, "answered", statuses)
			must.Hold(t, name != "as it should be" || len(paths) == 1 && statuses[0] == http.StatusOK, "the worker", paths, "answered", statuses)
			must.Hold(t, len(statuses) != 0, "the request got no response")
		})
	}
}

// A client that closes its side for writing before the worker has responded doesn't get a 200.
func TestEndOfASideIsNoAnswer(t *testing.T) {
	base, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	address, _, _ := strings.Cut(strings.TrimPrefix(base, "http://"), "/")
	c := must.Do(net.Dial("tcp", address))(t)
	defer c.Close()
	fmt.Fprintf(c, "GET /v2/ep1/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", key)
	must.Succeed(t, c.(*net.TCPConn).CloseWrite())
	answer, _ := io.ReadAll(c)
	must.Hold(t, len(answer) == 0, "it is answered", string(answer))
}

// For any path, the key is checked against the endpoint in the path, and the worker gets the
// rest unchanged.
func FuzzSplit(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, rest string) {
		u, err := url.ParseRequestURI("/v2/" + rest)
		if err != nil {
			return
		}
		endpoint, to := split(u)
		if strings.Contains(endpoint, "/") || !strings.HasPrefix(to.path, "/") || u.Path != "/v2/"+endpoint+to.path && u.Path != "/v2/"+endpoint {
			t.Errorf("%q is endpoint %q and path %q", rest, endpoint, to.path)
		}
		out := url.URL{Path: to.path, RawPath: to.raw}
		raw := out.EscapedPath()
		must.Equal(t, must.Do(url.PathUnescape(raw))(t), to.path, rest, "is sent on as", raw)
		if i := strings.IndexByte(u.EscapedPath()[len("/v2/"):], '/'); i >= 0 && !strings.Contains(endpoint, "%") && u.RawPath != "" && strings.EqualFold(u.EscapedPath()[4:4+i], endpoint) && raw != u.EscapedPath()[4+i:] {
			t.Errorf("%q is sent on as %q", rest, raw)
		}
	},
		fuzz.Seed{"ep/a%2Fb/c?x=1"}, fuzz.Seed{"ep"}, fuzz.Seed{"ep/../../v1/templates"}, fuzz.Seed{"e%2Fp/x"}, fuzz.Seed{"ep//x//"}, fuzz.Seed{"%65p/%7e"},
	)
}
