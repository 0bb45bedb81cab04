package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Env is the environment that the cases of a run share.
type Env struct {
	Target  *Target
	Clock   *Clock
	Secrets *wire.Secrets
	Ledger  *Ledger
	Pace    *Pace // nil: no rate limit
	Seed    uint64
	// MaxRequests is the maximum number of requests, including the cleanup. 0 means unlimited.
	MaxRequests int
	OnExchange  func(*wire.Exchange)

	// lastJobNeverStarted says that the last job didn't start within StartPatience.
	lastJobNeverStarted atomic.Bool

	silence silence
	// cleanUpTimeouts counts the last requests of cleanups that timed out.
	cleanUpTimeouts atomic.Int32

	// Requests and Jobs count the requests sent and the jobs submitted so far.
	Requests, Jobs atomic.Int64

	boxes       http.ServeMux // receivers of webhooks
	boxesServer *http.Server
	boxesURL    string // for the target
	boxesOnce   sync.Once
	boxesErr    error
}

// New returns an Env without a ledger file and pace: set them before use.
func New(t *Target, clock *Clock) *Env {
	e := &Env{Target: t, Clock: clock, Secrets: new(wire.Secrets), Ledger: new(Ledger)}
	if t.Client == nil {
		t.Client = newClient()
	}
	// The suite's output shows the names of these environment variables instead of the keys.
	e.Secrets.Add("GPUCLOUD_API_KEY", t.Key)
	e.Secrets.Add("GPUCLOUD_OTHER_API_KEY", t.OtherKey)
	e.Secrets.Add("GPUCLOUD_USER_API_KEY", t.UserKey)
	return e
}

// Do sends a request when Pace permits it, and again after a 429.
func (e *Env) Do(ctx context.Context, r wire.Request) *wire.Exchange {
	for try := 0; ; try++ {
		if err := e.Pace.Wait(ctx, r.URL); err != nil {
			return &wire.Exchange{Request: r, Err: err}
		}
		e.Requests.Add(1)
		tryCtx, end := ctx, context.CancelFunc(func() {})
		if r.Try != nil {
			tryCtx, end = r.Try(ctx)
		}
		x := wire.Do(tryCtx, e.Target.Client, r, e.Clock.Now)
		end()
		if e.OnExchange != nil {
			e.OnExchange(x)
		}
		if r.Method == http.MethodDelete && x.Status/100 == 2 {
			e.recordDeletion(r.URL)
		}
		if x.Status != http.StatusTooManyRequests || !e.Pace.waitAfter429(x, try) {
			return x
		}
	}
}

// Exhausted reports whether cases must stop sending requests. The rest of MaxRequests is for
// the cleanup, for requests in flight, and for the preflight, which isn't counted.
func (e *Env) Exhausted() bool {
	if e.MaxRequests == 0 {
		return false
	}
	objects := len(e.Ledger.Remaining(""))
	if objects > 0 {
		objects += listReads
	}
	return int(e.Requests.Load())+objects+inFlight+Preflight >= e.MaxRequests
}

// The most requests that a run sends in addition to its cases' requests.
const (
	listReads = 14 // one list of each kind and version
	inFlight  = 8
	Preflight = 6
)

// StartPatience is how long a job may wait for a worker to start: shorter if the last job never started.
func (e *Env) StartPatience() time.Duration {
	if e.lastJobNeverStarted.Load() {
		return time.Minute
	}
	return 5 * time.Minute
}

func (e *Env) RecordStart(started bool) { e.lastJobNeverStarted.Store(!started) }

// Close shuts down the receiver and closes connections and the ledger.
func (e *Env) Close() error {
	if e.boxesServer != nil {
		_ = e.boxesServer.Close()
	}
	e.Target.Client.CloseIdleConnections()
	return e.Ledger.Close()
}

// Pace limits the rate of requests to a target that others also use. The public limits of the
// management API are 60 a minute and 3,000 an hour.
type Pace struct {
	mu         sync.Mutex
	next       map[string]time.Time // when the next request may be sent, by API: "management" or "jobs"
	management time.Duration        // the interval between two requests to the management API
	jobs       time.Duration        // to the job API
	resumeAt   time.Time            // the end of the wait after the last 429
}

// SharedInterval is the interval between two requests to the management API of a deployment that others use.
const SharedInterval = time.Minute / 45

// NewPace returns a Pace with the least intervals between two requests to the management API and to the job
// API. 0 means no limit except the waits after a 429.
func NewPace(management, jobs time.Duration) *Pace {
	return &Pace{next: map[string]time.Time{}, management: management, jobs: jobs}
}

var (
	apiPath = regexp.MustCompile(`.*/(v1|v2)/([^/]*)`) // finds the last version, because the base URL may contain one, too
	// managementSegments begin the management API's paths of version 2. The job API's begin with an endpoint's id.
	managementSegments = strings.Fields("pods serverless templates network-volumes global-volumes registries catalog billing clusters account")
)

// IsManagement reports whether an address belongs to the management API.
func IsManagement(url string) bool {
	path, _, _ := strings.Cut(withoutQuery(url), "/openai/") // OpenAI's own v1 may follow
	match := apiPath.FindStringSubmatch(path + "/")
	return strings.HasSuffix(url, "/openapi.json") || match != nil && (match[1] == "v1" || slices.Contains(managementSegments, match[2]))
}

// Wait waits until a request may be sent.
func (p *Pace) Wait(ctx context.Context, url string) error {
	if p == nil {
		return nil
	}
	api, gap := "jobs", p.jobs
	if IsManagement(url) {
		api, gap = "management", p.management
	}
	p.mu.Lock()
	at := p.next[api]
	if now := time.Now(); at.Before(now) {
		at = now
	}
	if api == "management" {
		gap = max(gap, SharedInterval>>(at.Sub(p.resumeAt)/time.Minute))
	}
	p.next[api] = at.Add(gap)
	p.mu.Unlock()
	return pause(ctx, time.Until(at))
}

// waitAfter429 delays further requests by the Retry-After of a 429 of the management API, and lowers their rate,
// which doubles again with each minute. It reports whether to send the request again.
func (p *Pace) waitAfter429(x *wire.Exchange, try int) bool {
	if p == nil || try >= 5 || !IsManagement(x.Request.URL) {
		return false
	}
	now, text := time.Now(), x.Header.Get("Retry-After")
	until := now.Add(time.Second << try)
	if wait, err := time.ParseDuration(text + "s"); err == nil && wait >= 0 {
		until = now.Add(wait)
	} else if date, err := http.ParseTime(text); err == nil { // the other form (RFC 9110)
		until = date.Add(time.Second)                                      // the date is rounded
		if sent, err := http.ParseTime(x.Header.Get("Date")); err == nil { // the clocks may differ
			until = until.Add(now.Sub(sent))
		}
	}
	if until.Sub(now) > 2*time.Minute {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.next["management"]) {
		p.next["management"] = until
	}
	p.resumeAt = until
	return true
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxTimeouts is how many consecutive timeouts make a section of the clauses silent: its cases send no more
// requests. If the timeouts belong to more than one section, their API becomes silent.
const maxTimeouts = 3

// silence records consecutive requests that timed out.
type silence struct {
	mu       sync.Mutex
	timeouts map[string][]string // by section and by API: the section of each request
}

func (e *Env) RecordAnswer(section string, x *wire.Exchange, timedOut bool) {
	networkErr, _ := errors.AsType[net.Error](x.Err)
	timedOut = x.Status == 0 && !x.Sent.IsZero() && (timedOut || errors.Is(x.Err, context.DeadlineExceeded) || networkErr != nil && networkErr.Timeout())
	e.silence.mu.Lock()
	defer e.silence.mu.Unlock()
	if e.silence.timeouts == nil {
		e.silence.timeouts = map[string][]string{}
	}
	api, _ := e.Target.API(x.Request.URL)
	for _, scope := range []string{section, api} {
		switch {
		case e.silence.isSilent(scope): // it remains silent
		case timedOut:
			e.silence.timeouts[scope] = append(e.silence.timeouts[scope], section)
		default:
			delete(e.silence.timeouts, scope)
		}
	}
}

// isSilent reports whether a section, or an API with timeouts in several sections, is silent.
func (s *silence) isSilent(scope string) bool {
	list := s.timeouts[scope]
	return len(list) >= maxTimeouts && (list[0] == scope || slices.ContainsFunc(list, func(section string) bool { return section != list[0] }))
}

// SilenceReason returns why no more requests of a section are sent to an address, or "" if requests are still sent.
func (e *Env) SilenceReason(section, address string) string {
	e.silence.mu.Lock()
	defer e.silence.mu.Unlock()
	names := map[string]string{section: "the section " + section, "v1": "version 1 of the management API", "v2": "version 2 of the management API", "jobs": "the job API"}
	api, _ := e.Target.API(address)
	for _, scope := range []string{section, api} {
		if e.silence.isSilent(scope) {
			return fmt.Sprintf("%d requests in a row timed out in %s: no more are sent there", maxTimeouts, names[scope])
		}
	}
	return ""
}
