package httplimit

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Connections bounds the open connections of a server.
type Connections struct {
	// Most is how many there may be; 0 is DefaultConnections. It is lowered to
	// what the process's table of descriptors has room for.
	Most int
	// PerAddress is how many one client address may have, or one /64 network of
	// IPv6; 0 is DefaultPerAddress. It does not count for loopback addresses and
	// for Proxies.
	PerAddress int
	// Proxies are load balancers, which connect for many clients.
	Proxies []netip.Prefix
	Logger  *slog.Logger
}

// The defaults of Connections.
const (
	DefaultConnections = 4096
	DefaultPerAddress  = 1024
)

const (
	minReserve = 48          // descriptors that are kept from connections, at least
	maxReserve = 1024        // and at most; between these a quarter of all
	refusing   = 64          // connections at a time that are told why they are refused, at most
	firstWait  = time.Second // that a new connection has for its request before it makes room
	logEvery   = 10 * time.Second
	firstPause = 5 * time.Millisecond // after a failed accept, doubled each time
	lastPause  = time.Second
)

// Listener accepts connections within bounds. Beyond them it closes one that
// waits for a request, the longest first; where there is none, the new one is
// answered 503.
type Listener struct {
	net.Listener
	Connections
	refusals chan struct{}
	stop     chan struct{}
	stopping sync.Once
	spare    *os.File // a descriptor for refusals where there is no other; Accept's own

	mu      sync.Mutex
	open    map[*conn]struct{}
	waiting map[*conn]struct{} // those of open without a request
	counts  map[netip.Prefix]int
	logged  map[string]time.Time // when each warning was last written
}

// Listen bounds the connections that a listener accepts.
func Listen(l net.Listener, c Connections) *Listener {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Most == 0 {
		c.Most = DefaultConnections
	}
	if c.PerAddress == 0 {
		c.PerAddress = DefaultPerAddress
	}
	all := descriptors()
	c.Most = min(c.Most, all-reserve(all))
	spare, _ := os.Open(os.DevNull) // without it refusals wait for a descriptor
	return &Listener{
		Listener: l, Connections: c, refusals: make(chan struct{}, min(refusing, reserve(all)/6)), stop: make(chan struct{}), spare: spare,
		open: map[*conn]struct{}{}, waiting: map[*conn]struct{}{}, counts: map[netip.Prefix]int{}, logged: map[string]time.Time{},
	}
}

// reserve is how many of the descriptors connections leave to the database and
// to workers.
func reserve(descriptors int) int {
	return min(max(descriptors/4, minReserve), maxReserve, descriptors-1)
}

// Accept answers errors only of a listener that is closed.
func (l *Listener) Accept() (net.Conn, error) {
	for pause := firstPause; ; {
		c, err := l.Listener.Accept()
		switch {
		case err == nil:
			pause = firstPause
			if admitted := l.admit(c); admitted != nil {
				return admitted, nil
			}
		case errors.Is(err, net.ErrClosed):
			return nil, err
		default:
			l.warn("no connection could be accepted", "error", err)
			if exhausted(err) && (l.evict(netip.Prefix{}) || l.refuseOne()) {
				continue
			}
			select {
			case <-time.After(pause):
			case <-l.stop:
			}
			pause = min(2*pause, lastPause)
		}
	}
}

// exhausted tells that the process or the system has no descriptor left.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// admit answers nil for a connection that it refused.
func (l *Listener) admit(raw net.Conn) net.Conn {
	c := &conn{Conn: raw, listener: l, address: l.addressOf(raw)}
	for {
		full, reason := l.add(c)
		if !full {
			return c
		}
		of := netip.Prefix{}
		if reason == tooManyOfAddress {
			of = c.address
		}
		if !l.evict(of) {
			l.warn("a connection was refused", "reason", reason, "address", raw.RemoteAddr())
			l.refuse(raw, reason)
			return nil
		}
	}
}

const (
	tooManyOfAddress = "this address has too many open connections"
	tooMany          = "the deployment has too many open connections"
)

// addressOf is what a connection counts for, invalid for those without a bound
// of their own.
func (l *Listener) addressOf(c net.Conn) netip.Prefix {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.IsLoopback() || slices.ContainsFunc(l.Proxies, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return netip.Prefix{}
	}
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // an address has as many
	return p
}

func (l *Listener) add(c *conn) (full bool, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.address.IsValid() && l.counts[c.address] >= l.PerAddress:
		return true, tooManyOfAddress
	case len(l.open) >= l.Most:
		return true, tooMany
	}
	c.since = time.Now().Add(firstWait)
	l.open[c], l.waiting[c] = struct{}{}, struct{}{}
	if c.address.IsValid() {
		l.counts[c.address]++
	}
	return false, ""
}

func (l *Listener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	delete(l.waiting, c)
	if c.address.IsValid() {
		if l.counts[c.address]--; l.counts[c.address] == 0 {
			delete(l.counts, c.address)
		}
	}
}

// State is for http.Server.ConnState: it tells which connections wait for a
// request.
func (l *Listener) State(raw net.Conn, state http.ConnState) {
	c, ok := raw.(*conn)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; !ok {
		return
	}
	if state == http.StateIdle {
		c.since = time.Now()
		l.waiting[c] = struct{}{}
	} else if state != http.StateNew {
		delete(l.waiting, c)
	}
}

// evict closes the connection that has waited longest for a request, of one
// address where that is valid, and tells whether there was one.
func (l *Listener) evict(of netip.Prefix) bool {
	l.mu.Lock()
	var oldest *conn
	before := time.Now()
	for c := range l.waiting {
		if (!of.IsValid() || c.address == of) && !c.since.After(before) {
			oldest, before = c, c.since
		}
	}
	l.mu.Unlock()
	if oldest == nil {
		return false
	}
	_ = oldest.Close() // its client comes again
	return true
}

// refuseOne gives the spare descriptor to the next client, to be told to come
// again, and takes it back.
func (l *Listener) refuseOne() bool {
	if l.spare != nil {
		_ = l.spare.Close()
	}
	var c net.Conn
	err := os.ErrInvalid
	if tcp, ok := l.Listener.(*net.TCPListener); ok {
		_ = tcp.SetDeadline(time.Now().Add(drainTime)) // it may have given up
		c, err = tcp.Accept()
		_ = tcp.SetDeadline(time.Time{})
	}
	if err == nil {
		tell(c, "the deployment has no descriptor left for a connection")
		drop(c)
	}
	l.spare, _ = os.Open(os.DevNull)
	return err == nil
}

// refuse tells a client to come again, and waits a moment for what it sends:
// closed at once, the connection might lose the answer.
func (l *Listener) refuse(c net.Conn, reason string) {
	tell(c, reason)
	select {
	case l.refusals <- struct{}{}:
	default:
		drop(c)
		return
	}
	go func() {
		defer func() { <-l.refusals }()
		defer c.Close()
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_ = c.SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.CopyN(io.Discard, c, drainBytes)
	}()
}

// drop closes a connection, but reads what has arrived: closed with something
// unread, it would lose what was written.
func drop(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, _ = c.Read(make([]byte, 4<<10))
	_ = c.Close()
}

// tell answers 503 in a form that each of the APIs' clients can read. What it
// writes has room in a new connection's buffer.
func tell(c net.Conn, reason string) {
	text := reason + ": try again in a few seconds"
	body := `{"title":"Service Unavailable","status":503,"detail":"` + text + `","error":"` + text + `","message":"` + text + `"}`
	_ = c.SetWriteDeadline(time.Now().Add(drainTime))
	_, _ = io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "+
		strconv.Itoa(len(body))+"\r\n\r\n"+body)
}

// warn logs the first of many.
func (l *Listener) warn(text string, args ...any) {
	l.mu.Lock()
	now := time.Now()
	again := now.Sub(l.logged[text]) < logEvery
	if !again {
		l.logged[text] = now
	}
	l.mu.Unlock()
	if !again {
		l.Logger.Log(context.Background(), slog.LevelWarn, text, args...)
	}
}

// Close ends Accept. Open connections stay.
func (l *Listener) Close() error {
	l.stopping.Do(func() { close(l.stop) })
	return l.Listener.Close()
}
