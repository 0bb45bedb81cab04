package main

import (
	"fmt"
	"net"
	"net/netip"
	"time"
	"unicode/utf8"
)

// listenNetwork is the network for an address to listen on: 0.0.0.0 means all of
// IPv4 and :: all of IPv6. Go alone would listen on both for either.
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

// localURL is the URL at which this machine reaches the listener's address.
func localURL(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return "http://" + address.String()
	}
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		hostPort := net.JoinHostPort(loopback, fmt.Sprint(tcp.Port))
		if c, err := net.DialTimeout("tcp", hostPort, time.Second); err == nil { //nolint:noctx // local, and shorter than a second
			_ = c.Close()
			return "http://" + hostPort
		}
	}
	return "http://" + address.String()
}

// remoteURL is the URL at which other machines may reach a listener on all addresses;
// "" for any other listener, or without a known address.
func remoteURL(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return ""
	}
	addresses, _ := net.InterfaceAddrs() // empty after an error
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (n.IP.To4() != nil) == (tcp.IP.To4() != nil) {
			return "http://" + net.JoinHostPort(n.IP.String(), fmt.Sprint(tcp.Port))
		}
	}
	return ""
}

// minKey is the minimum length of a key that other machines can try to guess.
const minKey = 20

// checkKey refuses a key that could be guessed.
func (s *serve) checkKey(key string) error {
	if n := utf8.RuneCountInString(key); s.AllowRemote && n < minKey {
		return fmt.Errorf("the API key has %d characters, and with --allow-remote other machines may guess it: set %s to at least %d random ones (openssl rand -hex 20), "+
			"or unset it and remove the file %s of the data folder to get a new key", n, keyVariable, minKey, keyFile)
	}
	return nil
}
