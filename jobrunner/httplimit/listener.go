package httplimit

import (
	"cmp"
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

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// Config limits the connections of a Listener.
type Config struct {
	// Max is the limit of all connections; 0 is DefaultConnections. It is lowered
	// to the process's limit of descriptors, less a reserve.
	Max int
	// PerAddress is the limit for one client address, or one /64 network of IPv6;
	// 0 is DefaultPerAddress. Loopback addresses and Proxies are exempt.
	PerAddress int
	// Proxies are load balancers, which connect on behalf of many clients.
	Proxies []netip.Prefix
	// OnReject is called before a connection is answered 503, if it isn't nil.
	OnReject func()
	Logger   *slog.Logger
}

const (
	DefaultConnections = 4096
	DefaultPerAddress  = 1024
)

const (
	minReserve   = 48          // descriptors, for the database and workers
	maxReserve   = 1024        // the reserve is a quarter of all descriptors, within these bounds
	maxRejects   = 64          // rejected connections that are closed gracefully at a time
	requestGrace = time.Second // how long a new connection without a request can't be evicted
	logEvery     = 10 * time.Second
	minPause     = 5 * time.Millisecond // after a failed accept, doubled each time
	maxPause     = time.Second
)

// Listener limits the connections that it accepts. At a limit it evicts the connection that has been
// idle longest. If none is idle, it answers 503 to the new connection.
type Listener struct {
	net.Listener
	Config
	lingering chan struct{}   // semaphore of the rejected connections that linger
	life      context.Context // ends with Close
	stop      context.CancelFunc
	spare     *os.File // a descriptor for rejecting connections; only Accept uses it

	mu         sync.Mutex
	open       map[*conn]struct{}
	idle       map[*conn]struct{} // open connections that wait for a request
	counts     map[netip.Prefix]int
	lastLogged map[string]time.Time // by warning
}

func Listen(l net.Listener, c Config) *Listener {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	descriptors := Descriptors()
	reserved := min(max(descriptors/4, minReserve), maxReserve, descriptors-1)
	c.Max = min(cmp.Or(c.Max, DefaultConnections), descriptors-reserved)
	c.PerAddress = cmp.Or(c.PerAddress, DefaultPerAddress)
	spare, _ := os.Open(os.DevNull) // without it, rejecting has to wait for a free descriptor
	life, stop := context.WithCancel(context.Background())
	return &Listener{
		Listener: l, Config: c, lingering: make(chan struct{}, min(maxRejects, reserved/6)), life: life, stop: stop, spare: spare,
		open: map[*conn]struct{}{}, idle: map[*conn]struct{}{}, counts: map[netip.Prefix]int{}, lastLogged: map[string]time.Time{},
	}
}

// Accept returns an error only when the listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	for pause := minPause; ; {
		c, err := l.Listener.Accept()
		switch {
		case err == nil:
			pause = minPause
			if admitted := l.admit(c); admitted != nil {
				return admitted, nil
			}
		case errors.Is(err, net.ErrClosed):
			return nil, err
		default:
			l.warn("accepting a connection failed", "error", err)
			exhausted := errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) // no descriptor is left
			if exhausted && (l.evict(netip.Prefix{}) || l.rejectWithSpare()) {
				continue
			}
			_ = clock.RealSleep(l.life, pause)
			pause = min(2*pause, maxPause)
		}
	}
}

// admit returns nil if it rejects the connection.
func (l *Listener) admit(raw net.Conn) net.Conn {
	c := &conn{Conn: raw, listener: l, address: l.addressOf(raw)}
	for {
		reason := l.add(c)
		if reason == "" {
			return c
		}
		address := netip.Prefix{}
		if reason == tooManyOfAddress {
			address = c.address
		}
		if !l.evict(address) {
			l.warn("a connection was rejected", "reason", reason, "address", raw.RemoteAddr())
			l.reject(raw, reason)
			return nil
		}
	}
}

const (
	tooManyOfAddress = "this address has too many open connections"
	tooMany          = "the deployment has too many open connections"
)

// addressOf returns the address or network for which PerAddress counts a connection. It is invalid if the
// connection is exempt.
func (l *Listener) addressOf(c net.Conn) netip.Prefix {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.IsLoopback() || slices.ContainsFunc(l.Proxies, func(p netip.Prefix) bool { return p.Contains(ip) || p.Contains(netip.AddrFrom16(ip.As16())) }) {
		return netip.Prefix{}
	}
	p, _ := ip.Prefix(min(ip.BitLen(), 64)) // never fails: the address has as many bits
	return p
}

// add admits a connection, or returns the reason for rejecting it.
func (l *Listener) add(c *conn) (reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.address.IsValid() && l.counts[c.address] >= l.PerAddress:
		return tooManyOfAddress
	case len(l.open) >= l.Max:
		return tooMany
	}
	c.evictableFrom = time.Now().Add(requestGrace)
	l.open[c], l.idle[c] = struct{}{}, struct{}{}
	if c.address.IsValid() {
		l.counts[c.address]++
	}
	return ""
}

func (l *Listener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	delete(l.idle, c)
	if c.address.IsValid() {
		if l.counts[c.address]--; l.counts[c.address] == 0 {
			delete(l.counts, c.address)
		}
	}
}

// ConnState is an http.Server.ConnState hook that tracks which connections are idle.
func (l *Listener) ConnState(raw net.Conn, state http.ConnState) {
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
		c.evictableFrom = time.Now()
		l.idle[c] = struct{}{}
	} else if state != http.StateNew {
		delete(l.idle, c)
	}
}

// evict closes the connection that has been idle longest, and reports whether it found one. If
// address is valid, it considers only connections of this address.
func (l *Listener) evict(address netip.Prefix) bool {
	l.mu.Lock()
	var oldest *conn
	latest := time.Now()
	for c := range l.idle {
		if (!address.IsValid() || c.address == address) && !c.evictableFrom.After(latest) {
			oldest, latest = c, c.evictableFrom
		}
	}
	l.mu.Unlock()
	if oldest == nil {
		return false
	}
	_ = oldest.Close() // its client reconnects
	return true
}

// rejectWithSpare accepts the next connection with the spare descriptor, answers 503, closes it, and
// opens the spare descriptor again. It returns false if it accepted no connection.
func (l *Listener) rejectWithSpare() bool {
	_ = l.spare.Close() // fails if it is nil
	var c net.Conn
	err := os.ErrInvalid
	if tcp, ok := l.Listener.(*net.TCPListener); ok {
		_ = tcp.SetDeadline(time.Now().Add(drainTime)) // the client may have disconnected
		c, err = tcp.Accept()
		_ = tcp.SetDeadline(time.Time{})
	}
	if err == nil {
		l.write503(c, "the deployment has no file descriptor left for a connection")
		closeDrained(c)
	}
	l.spare, _ = os.Open(os.DevNull)
	return err == nil
}

// reject answers 503 and lingers.
func (l *Listener) reject(c net.Conn, reason string) {
	l.write503(c, reason)
	select {
	case l.lingering <- struct{}{}:
		go func() {
			defer func() { <-l.lingering }()
			defer c.Close()
			linger(c)
		}()
	default:
		closeDrained(c)
	}
}

// closeDrained reads what has arrived and closes. A close with unread data would lose the response.
func closeDrained(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, _ = c.Read(make([]byte, 4<<10))
	_ = c.Close()
}

// write503 answers in a form that the clients of all APIs can read, and that fits into a send buffer.
func (l *Listener) write503(c net.Conn, reason string) {
	if l.OnReject != nil {
		l.OnReject()
	}
	text := reason + ": try again in a few seconds"
	body := `{"title":"Service Unavailable","status":503,"detail":"` + text + `","error":"` + text + `","message":"` + text + `"}`
	_ = c.SetWriteDeadline(time.Now().Add(drainTime))
	_, _ = io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: "+RetryAfter+"\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "+
		strconv.Itoa(len(body))+"\r\n\r\n"+body)
}

// warn logs each warning at most once in logEvery.
func (l *Listener) warn(text string, args ...any) {
	l.mu.Lock()
	now := time.Now()
	loggedRecently := now.Sub(l.lastLogged[text]) < logEvery
	if !loggedRecently {
		l.lastLogged[text] = now
	}
	l.mu.Unlock()
	if !loggedRecently {
		l.Logger.Log(context.Background(), slog.LevelWarn, text, args...)
	}
}

// Close ends Accept. Open connections stay open.
func (l *Listener) Close() error {
	l.stop()
	return l.Listener.Close()
}
