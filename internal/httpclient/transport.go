package httpclient

import (
	"errors"
	"io"
	"net"
	"net/http"
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
	return t
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
