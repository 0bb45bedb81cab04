package node

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A node learns from a forwarded request whether its client used TLS.
func TestForwardKeepsTheScheme(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host+" "+r.Header.Get("X-Forwarded-Proto"))
	}))
	defer other.Close()
	n := New(Config{Machine: "this", Logger: slog.New(slog.DiscardHandler)})
	for _, proto := range []string{"https", ""} {
		r := httptest.NewRequest("GET", "http://cloud.example/v2/e/x", nil)
		if proto != "" {
			r.Header.Set("X-Forwarded-Proto", proto)
		}
		w := httptest.NewRecorder()
		n.forwarder(forwardTimeout, false).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forwardKey{}, other.URL)))
		must.Equal(t, w.Body.String(), "cloud.example "+proto)
	}
}
