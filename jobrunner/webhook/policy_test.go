package webhook_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/webhook"
)

func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		allow   string
		url     string
		allowed bool
	}{
		{"", "http://127.0.0.1:8080/x", true}, {"", "http://localhost/", true}, {"", "http://[::1]:80/", true}, {"", "https://example.com/", true}, {"", "https://192.0.2.1/", true},
		{"", "https://10.0.0.1/", false}, {"", "https://192.168.1.1/", false}, {"", "https://172.16.0.1/", false}, {"", "http://169.254.169.254/", false},
		{"", "http://[fe80::1]/", false}, {"", "http://[fd00::1]/", false}, {"", "http://0.0.0.0/", false}, {"", "http://100.100.100.200/", false},
		{"", "http://[::ffff:10.0.0.1]/", false}, {"", "http://[::ffff:127.0.0.1]/", true}, {"", "http://224.0.0.1/", false},
		{"", "ftp://example.com/", false}, {"", "file:///etc/passwd", false}, {"", "http:///x", false},
		{"example.com", "https://example.com:8443/", true}, {"example.com", "https://EXAMPLE.com/", true}, {"example.com", "https://a.example.com/", false},
		{"example.com", "https://example.com.evil.org/", false}, {"example.com", "http://127.0.0.1/", false}, {"example.com", "ftp://example.com/", false},
		{"*.example.com", "https://a.b.example.com/", true}, {"*.example.com", "https://example.com/", false}, {"*.example.com", "https://badexample.com/", false},
		{"example.com:8080", "http://example.com:8080/", true}, {"example.com:8080", "http://example.com/", false}, {"example.com:443", "https://example.com/", true},
		{"10.0.0.1", "http://10.0.0.1/", true}, {"10.0.0.1", "http://10.0.0.2/", false}, {"[::1]:80", "http://[::1]/", true}, {"[::1]", "http://[::1]:99/", true},
		{"a.org,Example.com", "http://example.com/", true},
	} {
		var allow []string
		if c.allow != "" {
			allow = strings.Split(c.allow, ",")
		}
		err := must.Do(webhook.NewPolicy(allow, false))(t).Check(must.Do(url.Parse(c.url))(t))
		var forbidden *webhook.ForbiddenError
		must.Hold(t, c.allowed == (err == nil) && (err == nil || errors.As(err, &forbidden)), "a policy for the hosts", allow, "checks", c.url, "with the result", err)
	}
	for _, bad := range []string{"", "http://example.com", "example.com/x", "a@b", "*.*.com", "a b", "example.com:port", "*.com:99999"} {
		must.Hold(t, must.Err(webhook.NewPolicy([]string{bad}, false)) != nil, bad, "is accepted as a host")
	}
}

// Special networks are forbidden, and this machine if others may submit jobs. Allowed hosts may have any address.
func TestSpecialAddresses(t *testing.T) {
	own := ""
	addresses := must.Do(net.InterfaceAddrs())(t)
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			own = n.IP.String()
		}
	}
	for _, c := range []struct {
		host          string
		local, remote bool // whether the address is allowed if jobs are submitted locally only, or remotely
	}{
		{"198.18.0.1", false, false}, {"198.19.255.255", false, false}, {"240.0.0.1", false, false}, {"255.255.255.255", false, false}, {"0.1.2.3", false, false},
		{"192.0.0.170", false, false}, {"192.88.99.1", false, false}, {"168.63.129.16", false, false}, {"100.64.0.1", false, false}, {"[::ffff:100.64.0.1]", false, false},
		{"[64:ff9b::7f00:1]", false, false}, {"[64:ff9b::a00:1]", false, false}, {"[64:ff9b:1::1]", false, false}, {"[2002:7f00:1::]", false, false}, {"[2002:a00:1::]", false, false},
		{"[2001::1]", false, false}, {"[2001:0:4136:e378::]", false, false}, {"[::7f00:1]", false, false}, {"[::127.0.0.1]", false, false}, {"[::ffff:0:7f00:1]", false, false}, {"[fec0::1]", false, false},
		{"[fe80::1%25lo]", false, false}, {"[::]", false, false}, {"[100::1]", false, false}, {"[fd00:ec2::254]", false, false},
		{"127.0.0.1", true, false}, {"127.9.9.9", true, false}, {"[::1]", true, false}, {"[::ffff:127.0.0.1]", true, false}, {"localhost", true, false}, {"a.LOCALHOST.", true, false},
		{"8.8.8.8", true, true}, {"[2606:4700::1111]", true, true}, {"example.com", true, true},
	} {
		for remote, want := range map[bool]bool{false: c.local, true: c.remote} {
			p := must.Do(webhook.NewPolicy(nil, remote))(t)
			err := p.Check(&url.URL{Scheme: "http", Host: strings.ReplaceAll(c.host, "%25", "%")})
			must.Hold(t, want == (err == nil), "with remote submissions", remote, "the check of", c.host, "returned", err)
			allowed, err := webhook.NewPolicy([]string{strings.ReplaceAll(strings.ToLower(c.host), "%25lo", "")}, remote)
			if err == nil && !strings.Contains(c.host, "%") {
				must.Equal(t, allowed.Check(&url.URL{Scheme: "http", Host: c.host}), nil, "the check of a host that is allowed by name:", c.host)
			}
		}
	}
	if own != "" {
		p := must.Do(webhook.NewPolicy(nil, true))(t)
		must.Hold(t, p.Check(&url.URL{Scheme: "http", Host: own}) != nil, "this machine may be called at", own)
	}
}

// If others may submit jobs, a name that resolves to this machine is forbidden, too.
func TestNamesOfThisMachine(t *testing.T) {
	var reached atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer server.Close()
	p := must.Do(webhook.NewPolicy(nil, true))(t)
	name := must.Do(os.Hostname())(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", name} {
		deliver(t, p, "http://"+host+":"+port)
		must.Hold(t, !reached.Load(), host, "was called")
	}
}

// singleCall is a queue of one call, which it returns again until deliver has got the outcome.
type singleCall struct {
	url  string
	done chan time.Time
}

func (c singleCall) Calls() <-chan struct{} { return nil }

func (c singleCall) CallQueues([]engine.OwnerHost) []engine.CallQueue {
	if c.url == "" {
		return nil
	}
	return []engine.CallQueue{{Endpoint: "ep", Next: time.Unix(1, 0)}}
}

func (c singleCall) ClaimCall(context.Context, engine.CallQueue, []engine.OwnerHost, time.Duration) (*engine.Call, error) {
	return &engine.Call{URL: c.url, Host: "h", Job: engine.Job{State: engine.Completed}, Input: []byte(`{}`)}, nil
}

func (c singleCall) RecordCall(_ *engine.Call, next time.Time) {
	select {
	case c.done <- next:
	default:
	}
}

// deliver makes a call over the network, and reports whether it was delivered.
func deliver(t *testing.T, p webhook.Policy, url string) bool {
	t.Helper()
	c := singleCall{url, make(chan time.Time, 1)}
	s := webhook.Start(webhook.Config{Queue: c, Clock: new(clock.Clock), Policy: p, Memory: httplimit.NewMemory(1), Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	return (<-c.done).IsZero()
}

// A redirect isn't followed: it fails, because its status isn't 200.
func TestNoRedirects(t *testing.T) {
	var reached atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/from":
			http.Redirect(w, r, "/to", http.StatusTemporaryRedirect)
		case "/to":
			reached.Store(true)
		}
	}))
	defer server.Close()
	must.Hold(t, !deliver(t, webhook.Policy{}, server.URL+"/from") && !reached.Load(), "the redirect was followed")
	must.Hold(t, deliver(t, webhook.Policy{}, server.URL+"/to"), "the target of the redirect can't be called directly")
}

// Every allowed URL is http or https, and not at a private address. A policy with a host allows just its URLs.
func FuzzPolicy(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text, allow string, remote bool) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		if must.Do(webhook.NewPolicy(nil, remote))(t).Check(u) == nil {
			must.Hold(t, (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "", "the URL", text, "is allowed")
			if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
				ip = ip.Unmap().WithZone("")
				must.Hold(t, !ip.IsPrivate() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() && !ip.IsUnspecified() && (!remote || !ip.IsLoopback()), "the URL", text, "is allowed at the address", ip)
			}
		}
		policy, err := webhook.NewPolicy([]string{allow}, remote)
		if err != nil {
			return
		}
		if policy.Check(u) == nil {
			pattern := strings.ToLower(strings.TrimSpace(allow))
			domain, below := strings.CutPrefix(pattern, "*.")
			host := strings.ToLower(u.Hostname())
			hostname := func(s string) string { // without a port and brackets
				if u, err := url.Parse("http://" + s); err == nil {
					return u.Hostname()
				}
				return s
			}
			must.Hold(t, (!below || strings.HasSuffix(host, "."+hostname(domain))) && (below || host == hostname(pattern)), "the URL", text, "is allowed by the host", allow)
		}
		if own, err := url.Parse("https://" + strings.Replace(allow, "*.", "a.", 1)); err == nil && strings.TrimSpace(allow) == allow && own.Port() == "" {
			must.Equal(t, policy.Check(own), nil, "the check of", own, "although allowed by", allow)
		}
	},
		fuzz.Seed{"http://127.0.0.1:8080/x", "example.com", false},
		fuzz.Seed{"http://[::ffff:10.0.0.1]/", "*.example.com", true},
		fuzz.Seed{"https://user:pw@EXAMPLE.com:443/a?b#c", "example.com:443", true},
		fuzz.Seed{"http://[fe80::1%25eth0]/", "[::1]:80", false},
		fuzz.Seed{"http://localhost./", "192.0.2.1", true},
	)
}
