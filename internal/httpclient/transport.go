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
	"sync/atomic"
	"time"
)

const (
	connectTimeout = 10 * time.Second
	maxAnswer      = 64 << 20 // bytes
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
	return dialing{t}
}

// dialing turns every failure before there is a connection into a failed dial. Otherwise the
// TLS handshake's failures look as if the request may have been sent.
type dialing struct{ http.RoundTripper }

func (d dialing) RoundTrip(r *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err := d.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		err = http.ErrSchemeMismatch // as http.Client says it, if err isn't wrapped
	}
	if err != nil && !connected.Load() && !neverSent(err) {
		err = &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return resp, err
}

var errTooLarge = errors.New("the answer is larger than this client accepts")

func read(body io.ReadCloser) ([]byte, error) {
	defer body.Close()
	answer, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		return nil, errTooLarge
	}
	return answer, err
}

// redirect follows a read only within the same host: elsewhere the key would leak, and a write
// would become a read.
func redirect(next *http.Request, before []*http.Request) error {
	first := before[0]
	if first.Method != http.MethodGet || len(before) > maxRedirects ||
		next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}
