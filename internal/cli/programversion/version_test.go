package programversion

import (
	"regexp"
	"runtime/debug"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ version, commit, want string }{
		{"1.2.3", "0123abc", `^p 1\.2\.3 \(commit 0123abc, go\S+, \w+/\w+\)$`},
		{"1.2.3", "", `^p 1\.2\.3$`},
		{"dev", "", `^p dev$`},
	} {
		got := Text("p", c.version, c.commit)
		must.Hold(t, regexp.MustCompile(c.want).MatchString(got), "expected a match of", c.want, "and got", got)
	}
}

func TestInstalled(t *testing.T) {
	for _, c := range []struct{ version, sum, want string }{
		{"v1.2.3", "h1:x", "1.2.3"},
		{"v1.2.4-0.20260101000000-0123456789ab+dirty", "", "dev"}, // a working tree
		{"(devel)", "", "dev"},
		{"", "", "dev"},
	} {
		must.Equal(t, installed(&debug.BuildInfo{Main: debug.Module{Version: c.version, Sum: c.sum}}), c.want, c)
	}
}
