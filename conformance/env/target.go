// Package env is the environment of cases: the target and its clock, the ledger of
// created objects, the receiver, and the pace of requests.
package env

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Target is a deployment to judge.
type Target struct {
	// BaseURL is the management API's address without /v2. If it is empty, only the job API is judged.
	BaseURL string
	// BaseURLV1 is the address of version 1, without /v1. QueueURL is the address of the job
	// API, without /v2/{endpoint}. Both default to BaseURL.
	BaseURLV1, QueueURL string
	// Key is a key with access to everything.
	Key string
	// OtherKey is a valid key without access to the objects of Key. UserKey is another
	// user's key with access to everything. Cases that need a missing key are skipped.
	OtherKey, UserKey string
	// Endpoint is an existing endpoint whose workers run our handler.
	Endpoint string
	// Workers is the maximum number of workers of Endpoint, if the preflight has found it, or 0.
	Workers int
	// Image is the image of endpoints that the suite creates. The default is builtin/conformance.
	Image string
	// EndpointBody has additional members, such as gpu, that the target requires to create an endpoint.
	EndpointBody map[string]json.RawMessage
	// Live selects the dialect of the public SDKs.
	Live bool
	// NoV1 and NoV2 exclude a version of the management API.
	NoV1, NoV2 bool
	// FindVersions excludes a version that the target doesn't serve.
	FindVersions bool
	// Local says that the target is on this machine and used only for tests. All cases run, with endpoints of their own.
	Local bool
	// Advance advances the target's clock, so that half an hour takes no time. It may be nil.
	Advance func(ctx context.Context, d time.Duration) (time.Time, error)
	// Lateness is how late a timed effect may come. The default is 5 s in real time, 2 s if waiting takes
	// no real time, and 0.9 s if only the suite moves the clock. With the default, the effects of a ttl, a
	// retention and an execution time-out may come another 5 s later: with a warning if only the suite moves the clock.
	Lateness time.Duration
	// ClockStopped says that only Advance moves the target's clock.
	ClockStopped bool
	// Virtual says that the target runs in the same testing/synctest bubble as the suite,
	// so that waiting takes no time. Client then reaches the target in memory.
	Virtual bool
	// HookListen is the address on this machine that receives webhooks, and HookURL is its URL for the
	// target. Without HookURL, webhooks are judged only if the target is on this machine.
	HookURL, HookListen string
	// Client sends the requests. If it is nil, the suite makes one.
	Client *http.Client
}

// V1, V2 and Queue return the addresses without a trailing slash.
func (t *Target) V1() string    { return strings.TrimRight(cmp.Or(t.BaseURLV1, t.BaseURL), "/") }
func (t *Target) V2() string    { return strings.TrimRight(t.BaseURL, "/") }
func (t *Target) Queue() string { return strings.TrimRight(cmp.Or(t.QueueURL, t.BaseURL), "/") }

// Base returns the address of a version of the management API, "v1" or "v2".
func (t *Target) Base(version string) string {
	return map[string]string{"v1": t.V1(), "v2": t.V2()}[version] + "/" + version
}

// API returns the API of an address, "v1", "v2", "jobs", or "" for none, and the path after the version.
func (t *Target) API(address string) (api, path string) {
	address = withoutQuery(address)
	for _, x := range []struct{ api, base string }{{"v1", t.V1() + "/v1"}, {"v2", t.V2() + "/v2"}, {"jobs", t.Queue() + "/v2"}} {
		if rest, ok := strings.CutPrefix(address, x.base); ok && strings.HasPrefix(rest, "/") && (x.api != "v2" || IsManagement(address)) {
			return x.api, rest
		}
	}
	return "", ""
}

// SkipsTime reports whether waiting in the target's time takes no real time.
func (t *Target) SkipsTime() bool { return t.Advance != nil || t.Virtual }

// Grace returns Lateness or its default.
func (t *Target) Grace() time.Duration {
	switch {
	case t.Lateness > 0:
		return t.Lateness
	case t.SkipsTime():
		return 2 * time.Second // the real time of other cases counts, too
	}
	return 5 * time.Second // networks and schedulers add delays
}

// HasV1 and HasV2 report whether a version of the management API is judged.
func (t *Target) HasV1() bool { return t.V1() != "" && !t.NoV1 }
func (t *Target) HasV2() bool { return t.V2() != "" && !t.NoV2 }

// newClient returns a client that keeps many connections open.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			// Without this function, the error of a proxy would read like the target's answer: "Forbidden".
			OnProxyConnectResponse: func(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
				if resp.StatusCode == http.StatusOK {
					return nil
				}
				return fmt.Errorf("the proxy %s answered %s", proxy.Host, resp.Status)
			},
			ForceAttemptHTTP2:   true, // because of DialContext, net/http would use only HTTP/1.1
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 512,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
			// A target that ignores Expect: 100-continue gets the body after this time.
			ExpectContinueTimeout: time.Second,
		},
		CheckRedirect: followSlash,
	}
}

// followSlash follows a redirect that only adds or removes a trailing slash. Any other redirect is the answer to judge.
func followSlash(to *http.Request, via []*http.Request) error {
	path := func(r *http.Request) string { return strings.TrimSuffix(r.URL.EscapedPath(), "/") }
	from := via[0]
	if len(via) > 1 || to.Method != from.Method || to.URL.Scheme != from.URL.Scheme || to.URL.Host != from.URL.Host || to.URL.RawQuery != from.URL.RawQuery || path(to) != path(from) {
		return http.ErrUseLastResponse
	}
	return nil
}

// Box is an address of the suite that the target calls with webhooks, and that handlers call to signal
// that they run. A case opens one for each purpose.
type Box struct {
	URL string

	now     func() time.Time
	mu      sync.Mutex
	calls   []Call
	answers []int
	arrived chan struct{} // closed by the next call
}

// Call is a request that a box got.
type Call struct {
	At     time.Time // by the target's clock
	Method string
	URI    string // path and query, as they were sent
	Header http.Header
	Body   []byte
}

// NewBox opens an address. The box answers calls with the status codes in turn and then repeats
// the last one. Without codes, the box answers 200. Code 0 closes the connection.
func (e *Env) NewBox(answers ...int) (*Box, error) {
	e.boxesOnce.Do(func() { e.boxesErr = e.serveBoxes() })
	if e.boxesErr != nil {
		return nil, e.boxesErr
	}
	path := "/" + rand.Text()
	b := &Box{URL: e.boxesURL + path, now: e.Clock.Latest, answers: answers, arrived: make(chan struct{})}
	e.boxes.Handle(path, b)
	e.boxes.Handle(path+"/", b)
	return b, nil
}

// CanCallSuite reports whether the target can reach this machine.
func (t *Target) CanCallSuite() bool { return t.HookURL != "" || !t.Virtual && isLoopback(t.Queue()) }

func (t *Target) OnThisMachine() bool {
	return !slices.ContainsFunc([]string{t.Queue(), t.V1(), t.V2()}, func(address string) bool { return address != "" && !isLoopback(address) })
}

func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

func (e *Env) serveBoxes() error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cmp.Or(e.Target.HookListen, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	e.boxesURL = strings.TrimRight(cmp.Or(e.Target.HookURL, "http://"+listener.Addr().String()), "/")
	e.boxesServer = &http.Server{Handler: &e.boxes, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = e.boxesServer.Serve(listener) }() // ends with Close
	return nil
}

func (b *Box) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 64<<20))
	if err != nil {
		return // the caller has disconnected
	}
	status := b.record(Call{At: b.now(), Method: req.Method, URI: req.RequestURI, Header: req.Header, Body: body})
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

func (b *Box) Calls() []Call { return b.Await(0, 0) }

// Await waits, in real time, for n calls or until patience has passed. It returns the calls so far.
func (b *Box) Await(n int, patience time.Duration) []Call {
	timeout := time.After(patience)
	for {
		b.mu.Lock()
		calls, arrived := b.calls[:len(b.calls):len(b.calls)], b.arrived
		b.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		select {
		case <-arrived:
		case <-timeout:
			return calls
		}
	}
}
