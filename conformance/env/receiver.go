package env

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Receiver is a server of the suite that the target calls with webhooks, and that handlers
// call to signal that they run.
type Receiver struct {
	server *http.Server
	base   string // its address for the target
	now    func() time.Time

	mu    sync.Mutex
	boxes map[string]*Box
}

// Box is one address of the receiver. A case opens one for each purpose.
type Box struct {
	URL string

	mu      sync.Mutex
	calls   []Call
	answers []int
	arrived chan struct{} // closed by the next call
}

// Call is a request that the receiver got.
type Call struct {
	At     time.Time // by the target's clock
	Method string
	Target string // path and query, as they were sent
	Header http.Header
	Body   []byte
}

// NewBox opens an address. It answers calls with the status codes in turn and then repeats
// the last one. Without codes, it answers 200. Code 0 closes the connection.
func (e *Env) NewBox(answers ...int) (*Box, error) {
	e.hooksOnce.Do(func() { e.hooks, e.hooksErr = e.startReceiver() })
	if e.hooksErr != nil {
		return nil, e.hooksErr
	}
	name := rand.Text()
	b := &Box{URL: e.hooks.base + "/" + name, answers: answers, arrived: make(chan struct{})}
	e.hooks.mu.Lock()
	defer e.hooks.mu.Unlock()
	e.hooks.boxes[name] = b
	return b, nil
}

// Reachable tells whether the target can reach this machine.
func (t *Target) Reachable() bool { return t.HookURL != "" || !t.Virtual && isLoopback(t.Queue()) }

// OnThisMachine tells whether the target runs on this machine.
func (t *Target) OnThisMachine() bool {
	for _, address := range []string{t.Queue(), t.V1(), t.V2()} {
		if address != "" && !isLoopback(address) {
			return false
		}
	}
	return true
}

func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

func (e *Env) startReceiver() (*Receiver, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cmp.Or(e.Target.HookListen, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	r := &Receiver{base: strings.TrimRight(cmp.Or(e.Target.HookURL, "http://"+listener.Addr().String()), "/"), now: e.Clock.Latest, boxes: map[string]*Box{}}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(listener) }() // ends with Close
	return r, nil
}

// ServeHTTP records a call.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	r.mu.Lock()
	b := r.boxes[name]
	r.mu.Unlock()
	if b == nil {
		http.NotFound(w, req)
		return
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 64<<20))
	if err != nil {
		return // the caller has disconnected
	}
	status := b.record(Call{At: r.now(), Method: req.Method, Target: req.RequestURI, Header: req.Header, Body: body})
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
}

func (b *Box) record(c Call) (status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	status = http.StatusOK
	if n := len(b.answers); n > 0 {
		status = b.answers[min(len(b.calls), n-1)]
	}
	b.calls = append(b.calls, c)
	close(b.arrived)
	b.arrived = make(chan struct{})
	return status
}

// Calls returns the calls so far.
func (b *Box) Calls() []Call { return b.Await(0, 0) }

// Await waits, in real time, until n calls have arrived or patience has passed. It returns
// the calls so far.
func (b *Box) Await(n int, patience time.Duration) []Call {
	late := time.After(patience)
	for {
		b.mu.Lock()
		calls, arrived := b.calls[:len(b.calls):len(b.calls)], b.arrived
		b.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		select {
		case <-arrived:
		case <-late:
			return calls
		}
	}
}
