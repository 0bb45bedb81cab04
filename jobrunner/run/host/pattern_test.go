package host

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, image string
		want           bool
	}{
		{"team/worker", "team/worker", true},
		{"team/worker", "team/worker:1.2", true},
		{"team/worker", "team/worker@sha256:0123", true},
		{"team/worker", "team/worker:1@sha256:0123", true},
		{"team/worker", "other/team/worker", false},
		{"team/worker", "team/worker2", false},
		{"team/worker:1.2", "team/worker:1.2", true},
		{"team/worker:1.2", "team/worker:1x2", false},
		{"team/worker:1.2", "team/worker", false},
		{"team/worker:*", "team/worker:1.2", true},
		{"team/worker:*", "team/worker", false},
		{"team/*", "team/worker:1.2", true},
		{"team/*", "team/sub/worker", false},
		{"team/**", "team/sub/worker:1", true},
		{"team/**", "team", false},
		{"**", "registry.example:5000/a/b:c", true},
		{"**/worker", "registry.example:5000/a/worker:c", true},
		{"registry.example:5000/worker", "registry.example:5000/worker", true},
		{"registry.example:5000/worker", "registry.example:5000/worker:9", true},
		{"worker", "registry.example:5000", false},
		{"t?am/x", "team/x", true},
		{"t?am/x", "t/am/x", false},
		{"v[0-9]/x", "v7/x", true},
		{"v[0-9]/x", "vv/x", false},
		{"v[!0-9]/x", "vv/x", true},
		{"v[!0-9]/x", "v1/x", false},
		{"a.b", "axb", false},
		{"a+(b)|c", "a+(b)|c", true},
		{"TEAM/x", "team/x", false},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		must.Equal(t, p.matches(c.image), c.want, c.pattern, "matches", c.image)
	}
	for _, bad := range []string{"", "a[b", "a[]", "a[!]", "a[b^]", `a[\]`, "a[a/b]", "a[z-a]", "\xff"} {
		must.Hold(t, must.Err(parsePattern(bad)) != nil, bad, "is a pattern")
	}
}
