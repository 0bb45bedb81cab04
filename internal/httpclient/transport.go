package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

const (
	connectTimeout = 10 * time.Second
	maxAnswer      = 64 << 20 // bytes
	maxDiscarded   = 4 << 10  // bytes of an answer to read before a retry, so that the connection can be reused
	maxRedirects   = 5
)

// Pooled returns a transport with enough idle connections for Terraform's default parallelism.
func Pooled() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.MaxIdleConnsPerHost = 16
	t.TLSHandshakeTimeout = connectTimeout
	t.OnProxyConnectResponse = func(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: fmt.Errorf("the proxy %s answered %s", proxy.Host, resp.Status)}
	}
	return dialErrorTransport{t}
}

// dialErrorTransport turns every failure before there is a connection into a failed dial. Otherwise the
// TLS handshake's failures look as if the request may have been sent.
type dialErrorTransport struct{ http.RoundTripper }

func (d dialErrorTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err := d.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if _, isPlainHTTP := errors.AsType[tls.RecordHeaderError](err); isPlainHTTP {
		err = http.ErrSchemeMismatch // http.Client does the same, but only if err isn't wrapped
	}
	if err != nil && !connected.Load() && !neverSent(err) {
		err = &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return resp, err
}

// ErrTooLarge is the error of an answer of more than maxAnswer bytes.
var ErrTooLarge = errors.New("the answer is larger than this client accepts")

func read(body io.ReadCloser) ([]byte, error) {
	defer body.Close()
	answer, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		return nil, ErrTooLarge
	}
	return answer, err
}

// redirect follows only redirects of reads, and only within a host: a write would become a read,
// and another host would get the key.
func redirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || len(via) > maxRedirects ||
		next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// Log receives a record of each try of a request: its result at debug level, its redacted
// bodies at trace level. The values are strings, numbers and encoding.TextMarshalers, which are
// formatted only if they are written.
type Log func(ctx context.Context, trace bool, message string, fields map[string]any)

// lazyText is a text that is formatted when a log writes it.
type lazyText func() string

func (l lazyText) MarshalText() ([]byte, error) { return []byte(l()), nil }

type loggingTransport struct {
	*Client
	call Call
	body []byte
	try  *int
}

// RoundTrip makes one try.
func (l loggingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.Log == nil {
		return l.RoundTripper.RoundTrip(r)
	}
	fields := func(more map[string]any) map[string]any {
		target := r.URL.String()
		more["method"], more["attempt"] = r.Method, *l.try
		more["url"] = lazyText(func() string { return l.sanitize(l.call, target, maxDetail) })
		return more
	}
	if len(l.body) > 0 {
		l.Log(r.Context(), true, "request body", fields(map[string]any{"body": l.redacted(l.body)}))
	}
	started := time.Now()
	resp, err := l.RoundTripper.RoundTrip(r)
	outcome := map[string]any{"duration_ms": time.Since(started).Milliseconds()}
	if err != nil {
		outcome["error"] = lazyText(func() string { return l.sanitize(l.call, err.Error(), maxDetail) })
	} else {
		id := resp.Header.Get("X-Request-Id")
		outcome["status"], outcome["request_id"] = resp.StatusCode, lazyText(func() string { return l.sanitize(l.call, id, maxExcerpt) })
	}
	l.Log(r.Context(), false, "request", fields(outcome))
	return resp, err
}

// receive reads and logs the body of an answer, unless the call streams it.
func (l loggingTransport) receive(ctx context.Context, resp *http.Response) (body []byte, err error) {
	if l.call.Stream != nil && resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), l.call.Accept) {
		return nil, l.call.Stream(resp)
	}
	if body, err = read(resp.Body); err == nil && l.Log != nil {
		l.Log(ctx, true, "response body", map[string]any{"method": l.call.Method, "attempt": *l.try, "body": l.redacted(body),
			"url": lazyText(func() string { return l.sanitize(l.call, l.call.URL, maxDetail) })})
	}
	return body, err
}

func (l loggingTransport) redacted(body []byte) lazyText {
	return func() string { return l.call.secrets.Body(body) }
}

// sanitize cleans text from elsewhere for a message: see redact.Set.Text.
func (c *Client) sanitize(call Call, text string, limit int) string {
	if call.secrets == nil { // the call wasn't sent
		call.secrets = new(redact.Set)
		call.secrets.Add(c.APIKey)
	}
	return call.secrets.Text(text, limit)
}
