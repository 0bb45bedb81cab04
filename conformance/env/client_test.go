package env

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The error of a proxy that refuses a connection names the proxy, not its password.
func TestProxyThatRefuses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	proxy := must.Do(url.Parse(server.URL))(t)
	proxy.User = url.UserPassword("user", "secret")
	client := newClient()
	client.Transport.(*http.Transport).Proxy = http.ProxyURL(proxy)
	resp, err := client.Get("https://deployment.example/v2/templates")
	if err == nil {
		resp.Body.Close()
	}
	must.Hold(t, err != nil && strings.Contains(err.Error(), "the proxy "+proxy.Host+" answered 403 Forbidden") && !strings.Contains(err.Error(), "secret"), err)
}
