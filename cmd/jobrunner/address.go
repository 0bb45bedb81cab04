package main

import (
	"fmt"
	"net"
	"net/netip"
	"time"
	"unicode/utf8"
)

// network has an address listened on as it says: 0.0.0.0 is all of IPv4 and ::
// all of IPv6, which Go would take for both.
func network(listen string) string {
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

// localURL is the URL by which this machine reaches an address that is listened on.
func localURL(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return "http://" + address.String()
	}
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		at := net.JoinHostPort(loopback, fmt.Sprint(tcp.Port))
		if c, err := net.DialTimeout("tcp", at, time.Second); err == nil { //nolint:noctx // it waits to be accepted, on this machine
			_ = c.Close()
			return "http://" + at
		}
	}
	return "http://" + address.String()
}

// remoteURL is the URL by which other machines may reach an address that stands
// for all of this machine's; "" where none is known.
func remoteURL(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return ""
	}
	addresses, _ := net.InterfaceAddrs() // there may be none that is known
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (n.IP.To4() != nil) == (tcp.IP.To4() != nil) {
			return "http://" + net.JoinHostPort(n.IP.String(), fmt.Sprint(tcp.Port))
		}
	}
	return ""
}

// minKey is the fewest characters of a key that other machines may try to
// guess.
const minKey = 20

// checkKey refuses a key that could be guessed.
func (s *serve) checkKey(key string) error {
	if n := utf8.RuneCountInString(key); s.AllowRemote && n < minKey {
		return fmt.Errorf("the API key has %d characters, and with --allow-remote other machines may guess it: set %s to at least %d random ones (openssl rand -hex 20), "+
			"or unset it and remove the file %s of the data folder to have one made", n, keyVariable, minKey, keyFile)
	}
	return nil
}
