package env

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Env is what the cases of a run share.
type Env struct {
	Target  *Target
	Clock   Clock
	Secrets *wire.Secrets
	Ledger  *Ledger
	Pace    *Pace // nil: as fast as it goes
	// Seed is the seed of random values.
	Seed uint64
	// MaxRequests bounds the requests, with those that delete what was created; 0: no bound.
	MaxRequests int
	// OnExchange is called with every exchange.
	OnExchange func(*wire.Exchange)

	client *http.Client
	// neverStarts says that a job did not start in the time that StartPatience gave.
	neverStarts atomic.Bool

	silence silence

	requests atomic.Int64
	jobs     atomic.Int64

	hooks   *Receiver
	hooking sync.Once
	hookErr error
}

// New returns an Env without a ledger file and pace: set them before use.
func New(t *Target, clock Clock) *Env {
	e := &Env{Target: t, Clock: clock, Secrets: new(wire.Secrets), Ledger: new(Ledger), client: t.Client}
	if e.client == nil {
		e.client = newClient()
	}
	// In output they are replaced by the names of their environment variables.
	e.Secrets.Add("GPUCLOUD_API_KEY", t.Key)
	e.Secrets.Add("GPUCLOUD_OTHER_API_KEY", t.OtherKey)
	e.Secrets.Add("GPUCLOUD_USER_API_KEY", t.UserKey)
	return e
}

// Do sends a request at the pace of the run, and again after a 429.
func (e *Env) Do(ctx context.Context, r wire.Request) *wire.Exchange {
	for try := 0; ; try++ {
		if err := e.Pace.Wait(ctx, r.URL); err != nil {
			return &wire.Exchange{Request: r, Err: err}
		}
		e.requests.Add(1)
		x := wire.Do(ctx, e.client, r, e.Clock.Now)
		if e.OnExchange != nil {
			e.OnExchange(x)
		}
		if r.Method == http.MethodDelete && x.Status/100 == 2 {
			e.noteDeleted(r.URL)
		}
		if x.Status != http.StatusTooManyRequests || !e.Pace.WaitAfter429(x, try) {
			return x
		}
	}
}

// Exhausted tells whether a case may send no further request: the rest of MaxRequests is for
// cleanup, for requests in flight, and for the preflight, which is not counted.
func (e *Env) Exhausted() bool {
	if e.MaxRequests == 0 {
		return false
	}
	objects := len(e.Ledger.Remaining(""))
	if objects > 0 {
		objects += listReads
	}
	return int(e.Requests())+objects+inFlight+preflight >= e.MaxRequests
}

// Requests beside those of cases, at most.
const (
	listReads = 12 // one list of each kind and version
	inFlight  = 8
	preflight = 10
)

// StartPatience is how long a job may wait for a worker, which may have to be started
// first. It is shorter after a wait in which no job started.
func (e *Env) StartPatience() time.Duration {
	if e.neverStarts.Load() {
		return time.Minute
	}
	return 5 * time.Minute
}

// NoteStart records whether a job began to run within StartPatience.
func (e *Env) NoteStart(began bool) { e.neverStarts.Store(!began) }

// Requests and Jobs return how many were sent and submitted.
func (e *Env) Requests() int64 { return e.requests.Load() }
func (e *Env) Jobs() int64     { return e.jobs.Load() }

// CountJob counts a job that was submitted.
func (e *Env) CountJob() { e.jobs.Add(1) }

// Close releases what the run used on this machine.
func (e *Env) Close() error {
	if e.hooks != nil {
		e.hooks.shutDown()
	}
	e.client.CloseIdleConnections()
	return e.Ledger.Close()
}

// Pace limits the rate of requests to a target that others use, too: the management API's public limits are 60 a minute, 3,000 an hour.
type Pace struct {
	mu         sync.Mutex
	next       map[string]time.Time
	management time.Duration // from one request to the next
	jobs       time.Duration
}

// NewPace allows so many requests per minute and second to each API.
func NewPace(managementPerMinute, jobsPerSecond int) *Pace {
	return &Pace{
		next:       map[string]time.Time{},
		management: time.Minute / time.Duration(max(managementPerMinute, 1)),
		jobs:       time.Second / time.Duration(max(jobsPerSecond, 1)),
	}
}

// Managed tells whether an address is of the management API, by the reserved
// first segments of its paths.
func Managed(url string) bool {
	for _, part := range []string{
		"/v1/", "/v2/pods", "/v2/serverless", "/v2/templates", "/v2/network-volumes", "/v2/registries", "/v2/catalog", "/v2/billing",
		"/v2/clusters", "/v2/account", "/openapi.json",
	} {
		if strings.Contains(url, part) {
			return true
		}
	}
	return false
}

// Wait waits for a request's turn.
func (p *Pace) Wait(ctx context.Context, url string) error {
	if p == nil {
		return nil
	}
	api, gap := "jobs", p.jobs
	if Managed(url) {
		api, gap = "management", p.management
	}
	p.mu.Lock()
	at := p.next[api]
	if now := time.Now(); at.Before(now) {
		at = now
	}
	p.next[api] = at.Add(gap)
	p.mu.Unlock()
	return pause(ctx, time.Until(at))
}

// WaitAfter429 waits for the Retry-After of a 429 of the management API, and tells
// whether to try again.
func (p *Pace) WaitAfter429(x *wire.Exchange, try int) bool {
	if p == nil || try >= 2 || !Managed(x.Request.URL) {
		return false
	}
	wait, err := time.ParseDuration(x.Header.Get("Retry-After") + "s")
	if err != nil || wait < 0 || wait > 2*time.Minute {
		return false
	}
	p.mu.Lock()
	p.next["management"] = time.Now().Add(wait)
	p.mu.Unlock()
	return true
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Client returns the client for requests outside of cases.
func (e *Env) Client() *http.Client { return e.client }
