package env

import (
	"context"
	"errors"
	"fmt"
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
	// Seed is that of the values that cases choose.
	Seed uint64
	// Seen is told of every exchange.
	Seen func(*wire.Exchange)

	client *http.Client
	// neverStarts says that a job did not start in the time that StartPatience gave.
	neverStarts atomic.Bool

	requests atomic.Int64
	jobs     atomic.Int64

	hooks   *Receiver
	hooking sync.Once
	hookErr error
}

// New has no ledger on the disk and no pace: set them before use.
func New(t *Target, clock Clock) *Env {
	e := &Env{Target: t, Clock: clock, Secrets: new(wire.Secrets), Ledger: new(Ledger), client: t.Client}
	if e.client == nil {
		e.client = client()
	}
	// They are shown as the variables that hold them where a run is started.
	e.Secrets.Add("GPUCLOUD_API_KEY", t.Key)
	e.Secrets.Add("GPUCLOUD_OTHER_API_KEY", t.OtherKey)
	e.Secrets.Add("GPUCLOUD_USER_API_KEY", t.UserKey)
	return e
}

// Do sends a request at the pace that the target asks for.
func (e *Env) Do(ctx context.Context, r wire.Request) *wire.Exchange {
	for try := 0; ; try++ {
		if err := e.Pace.Wait(ctx, r.URL); err != nil {
			return &wire.Exchange{Request: r, Err: err}
		}
		e.requests.Add(1)
		x := wire.Do(ctx, e.client, r, e.Clock.Now)
		if e.Seen != nil {
			e.Seen(x)
		}
		if x.Status != http.StatusTooManyRequests || !e.Pace.Again(x, try) {
			return x
		}
	}
}

// StartPatience is how long a job may wait for a worker, which may have to be
// started first: not as long any more where that was in vain.
func (e *Env) StartPatience() time.Duration {
	if e.neverStarts.Load() {
		return time.Minute
	}
	return 5 * time.Minute
}

// NoteStart notes that a job began to run, or did not in the time that
// StartPatience gave it.
func (e *Env) NoteStart(began bool) { e.neverStarts.Store(!began) }

// Requests and Jobs are how many there were.
func (e *Env) Requests() int64 { return e.requests.Load() }
func (e *Env) Jobs() int64     { return e.jobs.Load() }

// CountJob counts a job that was submitted.
func (e *Env) CountJob() { e.jobs.Add(1) }

// TakeDown takes down what a case made, or all for "", the newest first. The
// error names what is left.
func (e *Env) TakeDown(ctx context.Context, of string) error {
	var errs []error
	for _, m := range e.Ledger.Left(of) {
		if err := e.remove(ctx, m); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (e *Env) remove(ctx context.Context, m Made) error {
	x := e.Do(ctx, wire.Request{
		Method: m.Method, URL: m.URL, Header: http.Header{"Authorization": {"Bearer " + e.Target.Key}},
	})
	switch {
	case x.Err != nil:
		return fmt.Errorf("%s %s is left, made by %s: %s", m.Kind, m.ID, m.Case, e.Secrets.Redact(x.Err.Error()))
	case x.Status/100 == 2, x.Status == http.StatusNotFound, x.Status == http.StatusGone:
	case (x.Status == http.StatusBadRequest || x.Status == http.StatusUnprocessableEntity) && m.Kind != "job" && strings.Contains(m.URL, "/v1/"):
		// Version 1 answers so for what is not there: a read tells.
		read := e.Do(ctx, wire.Request{
			Method: http.MethodGet, URL: m.URL, Header: http.Header{"Authorization": {"Bearer " + e.Target.Key}},
		})
		if read.Status/100 == 2 {
			return fmt.Errorf("%s %s is left, made by %s: its deletion is answered 400", m.Kind, m.ID, m.Case)
		}
	case m.Kind == "job" && x.Status/100 == 4: // it is over
	default:
		return fmt.Errorf("%s %s is left, made by %s: its deletion is answered %d", m.Kind, m.ID, m.Case, x.Status)
	}
	return e.Ledger.Remove(m)
}

// Close gives back what the run used on this machine.
func (e *Env) Close() error {
	if e.hooks != nil {
		e.hooks.close()
	}
	e.client.CloseIdleConnections()
	return e.Ledger.Close()
}

// Pace spreads requests, so that a target that others use too is no busier for
// them: the management API's public limits are 60 a minute, 3,000 an hour.
type Pace struct {
	mu         sync.Mutex
	next       map[string]time.Time
	management time.Duration // from one request to the next
	jobs       time.Duration
}

// NewPace leaves so much time between requests of an API.
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

// Again waits as long as a 429 of the management API asks for, and tells
// whether to try once more.
func (p *Pace) Again(x *wire.Exchange, try int) bool {
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

// Client sends requests that are no part of a case.
func (e *Env) Client() *http.Client { return e.client }
