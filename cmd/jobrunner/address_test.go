package main_test

import (
	"net"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const longKey = "0123456789-long-enough-key"

// An unspecified address listens only on its own family, and the printed URL works.
func TestUnspecifiedAddresses(t *testing.T) {
	t.Parallel()
	for listen, c := range map[string]struct{ wantURL, unreachable string }{
		"0.0.0.0:0": {"http://127.0.0.1:", "[::1]"}, "[::]:0": {"http://[::1]:", "127.0.0.1"}, ":0": {"http://127.0.0.1:", ""},
	} {
		if probe, err := net.Listen("tcp6", "[::1]:0"); err == nil {
			probe.Close()
		} else if listen == "[::]:0" {
			t.Log("[::]: not tested, because this machine has no IPv6")
			continue
		}
		p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY="+longKey), "--ephemeral", "--allow-remote", "--listen="+listen)
		must.Hold(t, strings.HasPrefix(p.url, c.wantURL), "--listen", listen, "printed", p.url, c.wantURL)
		if _, err := p.client(longKey).NetworkVolumes.List(t.Context()); err != nil {
			t.Errorf("--listen=%s: %s", listen, err)
		}
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(p.url, "http://"))
		if c.unreachable != "" {
			if conn, err := net.Dial("tcp", strings.Trim(c.unreachable, " ")+":"+port); err == nil {
				conn.Close()
				t.Errorf("--listen=%s listens at %s, too", listen, c.unreachable)
			}
		}
		p.interrupt()
	}
}

// With --allow-remote a short key is rejected.
func TestShortKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", "nineteen-characters"} {
		said := mustFail(t, environment(t.TempDir(), "GPUCLOUD_API_KEY="+key), "serve", "--listen=127.0.0.1:0", "--allow-remote", "--ephemeral")
		must.Hold(t, strings.Contains(said, "at least 20 random ones") && !strings.Contains(said, "nineteen"), "said", said)
	}
}
