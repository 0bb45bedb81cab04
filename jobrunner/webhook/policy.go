package webhook

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Policy says which targets may be called. The zero Policy allows this machine
// itself, where the receiver of a deployment on one's own machine is, and
// public addresses. Private and link-local ones are refused: whoever may submit
// jobs could otherwise reach, through the jobrunner, what only its network may.
// So is this machine, where others may submit jobs.
// That counts for the address that is connected to, whatever its name.
//
// A Policy with hosts allows these and no others, at any address.
type Policy struct {
	hosts  []allowedHost
	remote bool // other machines may submit jobs: this machine is not called
}

// NewPolicy allows hosts alone, where there are some: names, *.domain for all
// below a domain, or addresses; :port narrows each to that port. With remote
// other machines may submit jobs.
func NewPolicy(hosts []string, remote bool) (Policy, error) {
	p := Policy{remote: remote}
	for _, text := range hosts {
		name, below := strings.CutPrefix(strings.ToLower(strings.TrimSpace(text)), "*.")
		u, err := url.Parse("http://" + name)
		if err != nil || u.Host != name || u.Hostname() == "" || strings.HasSuffix(name, ":") || strings.ContainsAny(u.Hostname(), "*[]") {
			return Policy{}, fmt.Errorf("invalid webhook host %q: expected for example example.com, *.example.com, 192.0.2.1 or example.com:8080", text)
		}
		p.hosts = append(p.hosts, allowedHost{u.Hostname(), u.Port(), below})
	}
	return p, nil
}

// allowedHost is a host at which webhooks may be called.
type allowedHost struct {
	name  string
	port  string // "": any
	below bool   // all names below it are meant, and not itself
}

// ForbiddenError says that a target may not be called, and why.
type ForbiddenError struct{ reason string }

func (e *ForbiddenError) Error() string { return e.reason }

func forbid(format string, args ...any) error { return &ForbiddenError{fmt.Sprintf(format, args...)} }

// Check returns a *ForbiddenError for a URL that may not be called, as far as
// that can be told without looking up its host.
func (p Policy) Check(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return forbid("webhook must be an http or https URL")
	case len(p.hosts) == 0:
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
			return p.checkAddress(ip)
		}
		if host := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")); p.remote && (host == "localhost" || strings.HasSuffix(host, ".localhost")) {
			return p.checkAddress(netip.IPv6Loopback())
		}
	case !slices.ContainsFunc(p.hosts, func(a allowedHost) bool { return a.matches(u) }):
		return forbid("webhook at a host that this deployment does not call: %s", u.Host)
	}
	return nil
}

func (a allowedHost) matches(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	switch {
	case a.port != "" && a.port != port(u):
		return false
	case a.below:
		return strings.HasSuffix(host, "."+a.name)
	}
	return host == a.name
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// special are the networks that count as public and are not: those of providers
// between their customers and the internet, of tests, of protocols and of the
// future, those whose addresses have another one in them that a gateway may
// connect to, and a cloud's server of metadata.
var special = func() (all []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4",
		"::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2002::/16", "5f00::/16", "fec0::/10",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

// checkAddress tells whether an address may be called.
func (p Policy) checkAddress(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	switch {
	case ip.IsLoopback() && !p.remote:
		return nil
	case ip.IsLoopback() || p.remote && slices.Contains(ownAddresses(), ip):
		return forbid("webhook at the address %s of the deployment's own machine: other machines may submit jobs (--allow-remote), and it is called only where --webhook-allow names its host", ip)
	case !ip.IsGlobalUnicast(), ip.IsPrivate(), slices.ContainsFunc(special, func(n netip.Prefix) bool { return n.Contains(ip) }):
		return forbid("webhook at the address %s of a private or special network: the deployment calls it only where --webhook-allow names its host", ip)
	}
	return nil
}

// ownAddresses are those of this machine now.
func ownAddresses() (all []netip.Addr) {
	addresses, _ := net.InterfaceAddrs() // there may be none that is known
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(network.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
	}
	return all
}

// transport connects to no address that the policy forbids, uses no proxy, and
// is for few calls at each host.
func (p Policy) transport() http.RoundTripper {
	dialer := &net.Dialer{Timeout: timeout}
	if len(p.hosts) == 0 {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return p.checkAddress(a.Addr())
		}
	}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: maxPerHost,
		MaxIdleConns:        maxCalls,
		IdleConnTimeout:     time.Minute,
		TLSHandshakeTimeout: timeout,
	}
}
