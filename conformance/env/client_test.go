package env

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
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
	must.Hold(t, err != nil && strings.Contains(err.Error(), "the proxy "+proxy.Host+" answered 403 Forbidden") && !strings.Contains(err.Error(), "secret"), "expected an error with the proxy's host and answer, without its password, got", err)
}

// A deployment may offer only HTTP/2.
func TestDeploymentWithOnlyHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := newClient()
	client.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	resp := must.Do(client.Get(server.URL))(t)
	defer resp.Body.Close()
	must.Equal(t, resp.ProtoMajor, 2, "the version of HTTP")
}

// The path of a request shows whether it belongs to the management API or to the job API.
func TestManagementPaths(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/endpoints/x": true, "/v2/pods": true, "/v2/global-volumes?limit=1": true, "/gateway/v2/account/secrets": true, "/openapi.json": true,
		"/v1/gateway/v2/x/run": false, "/v2/x/run": false, "/v2/x/openai/v1/models": false, "/live/v2/x/openai/v1/chat/completions": false, "/v2/pods7/status/pods": false,
	} {
		must.Equal(t, IsManagement("https://deployment.example"+path), want, path)
	}
}

// A 429 delays the next request by its Retry-After (seconds, or a date by the target's clock), or else by a second.
// Later requests are slower for some minutes.
func TestPaceAfter429(t *testing.T) {
	for header, want := range map[string]time.Duration{"3": 3 * time.Second, "": time.Second, "Sat, 01 Jan 2000 00:00:15 GMT": 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			p, begin := NewPace(0, 0), time.Now()
			x := &wire.Exchange{Request: wire.Request{URL: "http://deployment/v2/pods"}, Status: 429, Header: http.Header{"Retry-After": {header}, "Date": {"Sat, 01 Jan 2000 00:00:10 GMT"}}}
			must.Hold(t, p.waitAfter429(x, 0) && !p.waitAfter429(x, 5), "retries after", header)
			for _, wait := range []time.Duration{want, want + SharedInterval} {
				must.Succeed(t, p.Wait(t.Context(), x.Request.URL))
				must.Equal(t, time.Since(begin), wait, header)
			}
			for _, later := range []struct{ minutes, interval time.Duration }{{1, SharedInterval / 2}, {60, 0}} {
				time.Sleep(time.Until(begin.Add(want + later.minutes*time.Minute)))
				must.Succeed(t, p.Wait(t.Context(), x.Request.URL))
				must.Equal(t, time.Until(p.next["management"]), later.interval, header)
			}
		})
	}
}
