package webhook_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/webhook"
)

// Every allowed URL is http or https, isn't at a private address, and is at one of the hosts
// if there is a list. A valid list allows its own hosts.
func FuzzPolicy(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text, allow string, remote bool) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		anywhere, err := webhook.NewPolicy(nil, remote)
		must.Succeed(t, err)
		if anywhere.Check(u) == nil {
			must.Hold(t, (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "", text, "is allowed")
			if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
				ip = ip.Unmap().WithZone("")
				must.Hold(t, !ip.IsPrivate() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() && !ip.IsUnspecified() && (!remote || !ip.IsLoopback()), text, ip, "is allowed")
			}
		}
		listed, err := webhook.NewPolicy([]string{allow}, remote)
		if err != nil {
			return
		}
		if listed.Check(u) == nil {
			pattern := strings.ToLower(strings.TrimSpace(allow))
			domain, any := strings.CutPrefix(pattern, "*.")
			host := strings.ToLower(u.Hostname())
			bare := func(s string) string { // without a port and brackets
				if one, err := url.Parse("http://" + s); err == nil {
					return one.Hostname()
				}
				return s
			}
			must.Hold(t, (!any || strings.HasSuffix(host, "."+bare(domain))) && (any || host == bare(pattern)), text, "is allowed by", allow)
		}
		if own, err := url.Parse("https://" + strings.Replace(allow, "*.", "a.", 1)); err == nil && strings.TrimSpace(allow) == allow && own.Port() == "" {
			err := listed.Check(own)
			must.Hold(t, err == nil, own, "is not allowed by", allow, err)
		}
	},
		fuzz.Seed{"http://127.0.0.1:8080/x", "example.com", false},
		fuzz.Seed{"http://[::ffff:10.0.0.1]/", "*.example.com", true},
		fuzz.Seed{"https://user:pw@EXAMPLE.com:443/a?b#c", "example.com:443", true},
		fuzz.Seed{"http://[fe80::1%25eth0]/", "[::1]:80", false},
		fuzz.Seed{"http://localhost./", "192.0.2.1", true},
	)
}
