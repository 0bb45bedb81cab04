package main

import (
	"fmt"
	"net"
	"net/netip"
	"time"
	"unicode/utf8"
)

// listenNetwork returns the network for a listen address: IPv4 for 0.0.0.0 and IPv6 for ::. With
// the network tcp, Go would listen on both.
func listenNetwork(listen string) string {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return "tcp"
	}
	switch ip, err := netip.ParseAddr(host); {
	case err != nil:
		return "tcp"
	case ip.Unmap().Is4():
		return "tcp4"
	}
	return "tcp6"
}

// localURL returns the URL at which this machine reaches a listener.
func localURL(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return "http://" + address.String()
	}
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		hostPort := net.JoinHostPort(loopback, fmt.Sprint(tcp.Port))
		if c, err := net.DialTimeout("tcp", hostPort, time.Second); err == nil { //nolint:noctx // local, at most a second
			_ = c.Close()
			return "http://" + hostPort
		}
	}
	return "http://" + address.String()
}

// remoteURL returns the URL at which other machines may reach a listener on all addresses. For
// other listeners, or if no address is known, it returns "".
func remoteURL(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return ""
	}
	addresses, _ := net.InterfaceAddrs() // nil on error
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (n.IP.To4() != nil) == (tcp.IP.To4() != nil) {
			return "http://" + net.JoinHostPort(n.IP.String(), fmt.Sprint(tcp.Port))
		}
	}
	return ""
}

// minKey is the minimum length of a key with --allow-remote.
const minKey = 20

// checkKey rejects a short key with --allow-remote, because other machines could guess it.
func (s *serve) checkKey(key string) error {
	if n := utf8.RuneCountInString(key); s.AllowRemote && n < minKey {
		return usageErrorf("the API key has %d characters, and with --allow-remote other machines may guess it: set %s to at least %d random ones (openssl rand -hex 20), "+
			"or unset it and remove the file %s of the data folder to get a new key", n, keyVariable, minKey, keyFile)
	}
	return nil
}
