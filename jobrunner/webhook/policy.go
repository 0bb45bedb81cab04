package webhook

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Policy decides which hosts may be called. A Policy without hosts allows public addresses and this
// machine, because the receiver of a local deployment runs on it. It forbids private and
// link-local addresses: otherwise anybody who can submit jobs could reach the jobrunner's
// network. If other machines may submit jobs, it also forbids this machine. The policy
// applies to the address that is dialed, whatever the host's name.
//
// A Policy with hosts allows only these, at any address.
type Policy struct {
	hosts  []allowedHost
	remote bool // other machines may submit jobs
}

// NewPolicy returns a Policy that allows only the given hosts, if there are any. A host is a
// name, *.domain for all names below a domain, or an address, and may end in :port. remote
// means that other machines may submit jobs.
func NewPolicy(hosts []string, remote bool) (Policy, error) {
	p := Policy{remote: remote}
	for _, text := range hosts {
		name, subdomains := strings.CutPrefix(strings.ToLower(strings.TrimSpace(text)), "*.")
		u, err := url.Parse("http://" + name)
		if err == nil {
			_, err = strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
		}
		if err != nil || u.Host != name || u.Hostname() == "" || strings.HasSuffix(name, ":") || strings.ContainsAny(u.Hostname(), "*[]") {
			return Policy{}, fmt.Errorf("invalid webhook host %q: expected for example example.com, *.example.com, 192.0.2.1 or example.com:8080", text)
		}
		p.hosts = append(p.hosts, allowedHost{u.Hostname(), u.Port(), subdomains})
	}
	return p, nil
}

type allowedHost struct {
	name       string
	port       string // "": any
	subdomains bool   // allows all names below name, but not name itself
}

type ForbiddenError struct{ reason string }

func (e *ForbiddenError) Error() string { return e.reason }

func forbid(format string, args ...any) error { return &ForbiddenError{fmt.Sprintf(format, args...)} }

// Check returns a *ForbiddenError if a URL may not be called. It doesn't look up the host.
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
	host, port := strings.ToLower(u.Hostname()), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	switch {
	case a.port != "" && a.port != port:
		return false
	case a.subdomains:
		return strings.HasSuffix(host, "."+a.name)
	}
	return host == a.name
}

// specialNetworks lists networks that netip takes for global unicast but that aren't public:
// carrier-grade NAT, benchmarks, protocol assignments, reserved networks, networks whose
// addresses embed an IPv4 address for gateways, and a cloud's metadata server.
var specialNetworks = func() (all []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4",
		"::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2002::/16", "5f00::/16", "fec0::/10",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

// checkAddress returns a *ForbiddenError if an address may not be called.
func (p Policy) checkAddress(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	switch {
	case ip.IsLoopback() && !p.remote:
		return nil
	case ip.IsLoopback() || p.remote && slices.Contains(ownAddresses(), ip):
		return forbid("webhook at the address %s of the deployment's own machine: other machines may submit jobs (--allow-remote), so it is called only if --webhook-allow names its host", ip)
	case !ip.IsGlobalUnicast(), ip.IsPrivate(), slices.ContainsFunc(specialNetworks, func(n netip.Prefix) bool { return n.Contains(ip) }):
		return forbid("webhook at the address %s of a private or special network: the deployment calls it only if --webhook-allow names its host", ip)
	}
	return nil
}

func ownAddresses() (all []netip.Addr) {
	addresses, _ := net.InterfaceAddrs() // empty after an error
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(network.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
	}
	return all
}

// transport returns a transport that dials only allowed addresses, without a proxy.
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
