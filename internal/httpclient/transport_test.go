package httpclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A create whose TLS handshake or proxy fails is repeated, and its error says that it changed nothing.
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
			base := transport.(dialErrorTransport).RoundTripper.(*http.Transport)
			base.Proxy = func(*http.Request) (*url.URL, error) {
				if c.proxy {
					return url.Parse("http://user:secret@proxy:3128")
				}
				return nil, nil
			}
			base.DialContext = func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go c.serve(server)
				return client, nil
			}
			client := &Client{APIKey: "k", Timeout: time.Minute, RoundTripper: transport}
			_, err := client.Do(t.Context(), Call{Method: http.MethodPost, URL: "https://deployment/a", Body: map[string]any{}}, nil)
			failure, ok := errors.AsType[*Error](err)
			if !ok || failure.Ambiguous() || failure.Tries < 2 || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "This request changed nothing.") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}

// An interrupted connection attempt isn't an outage: the next call is sent.
func TestInterruptedDialIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &Client{APIKey: "k", Timeout: time.Minute, RoundTripper: Pooled()}
		client.RoundTripper.(dialErrorTransport).RoundTripper.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Second)
			return nil, net.ErrClosed
		}
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, interrupt)
		_, err := client.Do(ctx, Call{Method: http.MethodGet, URL: "http://deployment/a"}, nil)
		time.Sleep(time.Second)
		must.Hold(t, errors.Is(err, context.Canceled) && client.outage.Load() == nil, "got", err, "and an outage", client.outage.Load())
	})
}

func TestShapeErrors(t *testing.T) {
	type object struct {
		ID    string
		Size  int64
		Price json.Number
		Ratio float64
		On    *bool
		Tags  []string
		Env   map[string]string
		Inner struct{ Ports []struct{ Public *int64 } }
	}
	for text, want := range map[string]string{
		`[]`:                              "$ is an array, not an object",
		` "x"`:                            "$ is a string, not an object",
		`{"id":7}`:                        "$.id is a number, not a string",
		`{"name":"n", "id": {"a":[1,2]}}`: "$.id is an object, not a string",
		`{"size":"10"}`:                   "$.size is a string, not a whole number",
		`{"size":1.5}`:                    "$.size is 1.5, not a whole number",
		`{"size":2.0,"id":1.0}`:           "$.id is a number, not a string",
		`{"size":99999999999999999999}`:   "$.size is 99999999999999999999, which is out of range",
		`{"ratio":1e999}`:                 "$.ratio is 1e999, which is out of range",
		`{"price":true}`:                  "$.price is a boolean, not a number",
		`{"price":"x"}`:                   "$ has a string where a number is expected",
		`{"on":"yes"}`:                    "$.on is a string, not a boolean",
		`{"tags":["a",["b"]]}`:            "$.tags[1] is an array, not a string",
		`{"tags":"a"}`:                    "$.tags is a string, not an array",
		`{"env":{"A":"1","B.C":2}}`:       `$.env["B.C"] is a number, not a string`,
		`{"env":[]}`:                      "$.env is an array, not an object",
		`{"other":{"id":7},"inner":{"ports":[{},{"public":1},{"public":"2"}]}}`: "$.inner.ports[2].public is a string, not a whole number",
	} {
		err := Decode([]byte(text), new(object))
		must.Hold(t, err != nil && err.Error() == want, "decoding", text, "gives", err, "want", want)
	}
	deep := strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000)
	err := Decode([]byte(`{"a":`+deep+`,"id":7}`), new(object))
	must.Hold(t, err != nil && err.Error() == "$.id is a number, not a string", "decoding an id after a deep object gives", err)
	var decoded object
	must.Succeed(t, Decode([]byte(`{"id":"\"1.0","unheardOf":[{"x":1}],"size":1.0E+1,"price":0.50,"inner":{"ports":[{"public":-2.0}]}}`), &decoded))
	must.Hold(t, decoded.ID == `"1.0` && decoded.Size == 10 && decoded.Price == "0.50" && *decoded.Inner.Ports[0].Public == -2, "a valid object is decoded as", decoded)
}

const (
	fuzzedKey    = "planted-k3y/of+the=<client>&"
	fuzzedSecret = "planted-<s3cret>&\"pässword\""
)

// plantSecrets puts the secrets into a response, in each encoding that servers use.
func plantSecrets(text string) string {
	unquoted := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	withoutHTMLEscapes := strconv.Quote(fuzzedSecret) // for this text, the same as in JSON
	escaped, _ := json.Marshal(fuzzedSecret)
	return strings.NewReplacer("$KEY", fuzzedKey, "$PLAIN", unquoted(withoutHTMLEscapes), "$JSON", unquoted(string(escaped)), "$URL", url.QueryEscape(fuzzedKey), "$RAW", fuzzedSecret).Replace(text)
}

// An error's message is one line of bounded length, without the key and the secrets of the request.
func FuzzErrorBody(f *testing.F) {
	client := &Client{APIKey: fuzzedKey}
	fuzz.Run(f, func(t *testing.T, status int, header, text string) {
		status = 300 + (status%300+300)%300
		for _, isAPI := range []bool{true, false} {
			client.IsAPIError = func(string, int, []byte) bool { return isAPI }
			call := Call{Method: "POST", URL: "http://deployment/registries", secrets: new(redact.Set)}
			call.secrets.Add(fuzzedKey, fuzzedSecret)
			resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {header}, "X-Request-Id": {plantSecrets(header)}, "Server": {plantSecrets(header)}, "Location": {plantSecrets(header)}}, Request: &http.Request{URL: &url.URL{Scheme: "http", Host: "deployment"}}}
			message := (&Response{resp, []byte(plantSecrets(text)), client, call, 1}).answerError().Error()
			for _, secret := range []string{fuzzedKey, fuzzedSecret, plantSecrets("$PLAIN"), plantSecrets("$JSON"), plantSecrets("$URL")} {
				must.Hold(t, !strings.Contains(message, secret), "the message about", header, text, "has a secret:", message)
			}
			must.Hold(t, utf8.ValidString(message) && !strings.ContainsFunc(message, unicode.IsControl) && len(message) <= 4*(maxFields+4)*(maxDetail+10),
				"the error of", text, "has", len(message), "bytes", message)
		}
	},
		fuzz.Seed{422, "application/problem+json", `{"title":"Validation failed","status":422,"detail":"2 problems with $PLAIN","errors":["$: missing property 'name'","$.size: $JSON"]}`},
		fuzz.Seed{400, "application/json", `{"message":["a","$KEY"]}`}, fuzz.Seed{400, "", `{"error":{"code":7,"message":"no such pool"}}`},
		fuzz.Seed{404, "text/html", "<html><title>404 &amp; $RAW</title><body>nginx</body></html>"}, fuzz.Seed{308, "https://user:$URL@elsewhere/v2?token=$KEY", ""},
		fuzz.Seed{400, "", strings.Repeat(`{"error":`, 2000) + "1" + strings.Repeat("}", 2000)}, fuzz.Seed{400, "", strings.Repeat(`{"error":[`, 500) + "1" + strings.Repeat("]}", 500)},
	)
}

// Whatever limits a server announces, each wait is short enough for users, and a request follows.
func FuzzRateLimit(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, limit, policy, after string) {
		var p throttle
		started := time.Now()
		for _, status := range []int{200, 429, 429, 200} {
			p.inFlight++
			p.release(&http.Response{StatusCode: status, Header: http.Header{"Ratelimit": {limit}, "Ratelimit-Policy": {policy}, "Retry-After": {after}}})
		}
		must.Equal(t, p.inFlight, 0, "requests in flight")
		wait := p.wait(started)
		if wait > longestWait { // the request is sent at once: see acquire
			return
		}
		next := p.wait(started.Add(max(wait, 0) + time.Second))
		must.Hold(t, next <= wait || next <= time.Second, "the headers", limit, policy, after, "cause the wait", wait, "and then the wait", next)
	},
		fuzz.Seed{`"minute";r=0;t=12`, `"minute";q=100;w=60`, "3"}, fuzz.Seed{`"a";r=1;t=2, "b";r=0;t=99999999999`, `"a";q=9;w=9,"b";q=1;w=9999999999999`, "Wed, 21 Oct 2026 07:28:00 GMT"},
		fuzz.Seed{`"";t=0;r=0`, `"";w=0;q=0`, "-1"}, fuzz.Seed{`"a";r=0;t=9223372036854775807`, ``, "99999999999"},
	)
}
