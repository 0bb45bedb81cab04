package httpclient_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// script answers the n-th request with the n-th answer, and further ones with
// the last.
type script struct {
	answers []http.HandlerFunc

	mu sync.Mutex
	at []time.Time // of the requests
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	n := min(len(s.at), len(s.answers)-1)
	s.at = append(s.at, time.Now())
	s.mu.Unlock()
	s.answers[n](w, r)
}

func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// direct calls a handler without a network, so that time can be virtual.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

func newClient(server http.Handler) *httpclient.Client {
	return &httpclient.Client{APIKey: "k", Timeout: 10 * time.Second, RoundTripper: direct{server}}
}

func read(ctx context.Context, c *httpclient.Client) error {
	var object struct{ ID string }
	return c.Do(ctx, httpclient.Call{Method: http.MethodGet, URL: "http://deployment/a"}, &object)
}
