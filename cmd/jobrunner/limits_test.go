package main_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// Each API has a flag for its limits: the job API's are on unless told
// otherwise, the management API's off.
func TestLimitFlags(t *testing.T) {
	for _, c := range []struct {
		args             []string
		jobs, management bool // whether there are limits
	}{
		{nil, true, false}, {[]string{"--limits=off"}, false, false}, {[]string{"--management-limits=on"}, true, true},
	} {
		p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), append(c.args, "--ephemeral")...)
		e, err := p.client("k").Endpoints.Create(t.Context(), api.Endpoint{
			Name: "e", Type: "QUEUE", Container: &api.Container{Image: new("builtin/echo")},
			Workers: api.Workers{Max: 0}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 4},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.refused(52, http.MethodPost, "/v2/"+e.ID+"/run", `{"input":{}}`); got != c.jobs {
			t.Errorf("%v: the job API refuses for too many: %v", c.args, got)
		}
		if got := p.refused(61, http.MethodGet, "/v2/templates", ""); got != c.management {
			t.Errorf("%v: the management API refuses for too many: %v", c.args, got)
		}
	}
}

// refused tells whether one of n requests is answered 429.
func (p *process) refused(n int, method, path, body string) (refused bool) {
	p.t.Helper()
	for range n {
		req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
		if err != nil {
			p.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer k")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			p.t.Fatal(err)
		}
		resp.Body.Close()
		refused = refused || resp.StatusCode == http.StatusTooManyRequests
	}
	return refused
}
