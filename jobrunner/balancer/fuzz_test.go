package balancer

import (
	"net/url"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

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
