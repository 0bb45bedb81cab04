package suite

import (
	"context"
	crypto "crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// M is a JSON object.
type M = map[string]any

// C is the context of a running case. Only the goroutine of the case uses it. Requests of Start run concurrently.
type C struct {
	Case   *Case
	Target *env.Target
	// Endpoint and SecondEndpoint are the ids of the endpoints that the case needs.
	Endpoint, SecondEndpoint string

	ctx              context.Context // ends at an interrupt
	requests         context.Context // of requests in flight; ends up to interruptGrace after ctx
	env              *env.Env
	startedAt        time.Time
	warning          *Outcome
	observed         string
	leftOut          []string
	crashAllowed     bool         // see AllowCrash
	fixtureExchanges int          // exchanges of the trace that created fixtures
	journal          *Journal     // nil if the case isn't deferrable
	refused          []env.Object // whose creation was refused

	mu             sync.Mutex
	trace          []*wire.Exchange
	steps          []*wire.Step // in the order in which they began
	exchangesBegun int

	started []*Pending // by Start
}

// Serves reports whether the target has a version of the management API, "v1" or "v2".
func (c *C) Serves(version string) bool {
	return version == "v1" && c.Target.HasV1() || version == "v2" && c.Target.HasV2()
}

// HasVersion reports whether a version of the management API, "v1" or "v2", is judged. If it isn't, the
// report says that the clause is partly judged.
func (c *C) HasVersion(version string) bool {
	if !c.Serves(version) {
		c.leaveOut("version " + version[1:] + " of the management API isn't judged")
	}
	return c.Serves(version)
}

// AllowCrash accepts a 500, which the description names for a crashing worker. In other
// cases a 500 fails even if the description leaves the answer open.
func (c *C) AllowCrash() { c.crashAllowed = true }

// Name returns a unique name for an object that the case creates.
func (c *C) Name() string {
	return "conf-" + strings.ToLower(c.Case.ID) + "-" + c.Nonce()[:10]
}

// Nonce returns a unique word.
func (c *C) Nonce() string {
	return c.randomWord(func() string { return strings.ToLower(crypto.Text()) })
}

// Random returns a source of random values. It is the same in each run with the same seed.
func (c *C) Random() *rand.Rand {
	seed := c.randomWord(func() string { return strconv.FormatUint(c.env.Seed, 10) }) // recorded, so that a resumed case keeps its seed
	return rand.New(rand.NewChaCha8(sha256.Sum256([]byte(seed + c.Case.ID))))
}

// Secret returns a unique word that no output shows.
func (c *C) Secret(name string) string {
	secret := "planted-" + c.Nonce()
	c.env.Secrets.Add(name, secret)
	return secret
}

// Request is changed by options. By default it has Target.Key as bearer token and the content type of a JSON body.
type Request = wire.Request

type Option func(*Request)

func WithHeader(name, value string) Option {
	return func(r *Request) { r.Header.Set(name, value) }
}

func WithKey(key string) Option { return WithHeader("Authorization", "Bearer "+key) }

func WithoutKey() Option {
	return func(r *Request) { r.Header.Del("Authorization") }
}

// Raw sends a body that isn't encoded as JSON.
func Raw[T string | []byte](body T) Option {
	return func(r *Request) { r.Body = []byte(body) }
}

// Chunked sends the body without Content-Length.
func Chunked() Option { return func(r *Request) { r.Chunked = true } }

// Stalled announces a body, but never sends it.
func Stalled() Option { return func(r *Request) { r.Stalled = true } }

// Unread reads only the beginning of the body of a 2xx.
func Unread() Option { return func(r *Request) { r.Unread = true } }

// SkipBody reads only status and header: the body may never end. If a proxy waits for the end, the code is 0.
func SkipBody() Option { return func(r *Request) { r.SkipBody = true } }

// MayHangUp accepts a connection that the target closes while the body is sent. The code is then 0.
func MayHangUp() Option { return func(r *Request) { r.MayHangUp = true } }

// Quiet keeps a request out of the trace, for cases that send hundreds of requests.
func Quiet() Option { return func(r *Request) { r.Quiet = true } }

// Get and Post send a request to the job API of the case's endpoint. If no worker starts during the default
// wait of /runsync, 90 s, Post starts one and sends the request again.
func (c *C) Get(path string, o ...Option) *Answer { return c.Job("GET", c.Endpoint, path, nil, o...) }
func (c *C) Post(path string, body any, o ...Option) *Answer {
	a := c.Job("POST", c.Endpoint, path, body, o...)
	if path == "/runsync" && !c.Target.Local && a.ValueOrNil("status") != Completed && a.Received.Sub(a.Sent) > 80*time.Second {
		c.Run(Echo()).AwaitCompleted()
		a = c.Job("POST", c.Endpoint, path, body, o...)
	}
	return a
}

// Job sends a request to the job API of an endpoint.
func (c *C) Job(method, endpoint, path string, body any, o ...Option) *Answer {
	return c.Do(method, c.jobURL(endpoint, path), body, o...)
}

func (c *C) jobURL(endpoint, path string) string {
	return c.Target.Queue() + "/v2/" + PathSegment(endpoint) + path
}

// Manage sends a request to a version of the management API, "v1" or "v2". path follows the version.
func (c *C) Manage(version, method, path string, body any, o ...Option) *Answer {
	return c.Do(method, c.Target.Base(version)+path, body, o...)
}

// V1 and V2 are Manage for one version.
func (c *C) V1(method, path string, body any, o ...Option) *Answer {
	return c.Manage("v1", method, path, body, o...)
}

func (c *C) V2(method, path string, body any, o ...Option) *Answer {
	return c.Manage("v2", method, path, body, o...)
}

// Do sends a request to any address. body is sent as JSON unless it is nil.
func (c *C) Do(method, url string, body any, o ...Option) *Answer {
	return c.send(c.request(method, url, body, o))
}

// request returns a request. It ends the case if no more requests may be sent.
func (c *C) request(method, url string, body any, o []Option) Request {
	c.stopIfInterrupted()
	if c.env.Exhausted() {
		c.stop(Outcome{Verdict: report.Skip, Code: report.SkipBudget, Reason: fmt.Sprintf("the run has sent nearly as many requests as --max-requests %d allows: raise it", c.env.MaxRequests)})
	}
	section, _, _ := strings.Cut(c.Case.ID, "-")
	if reason := c.env.SilenceReason(section, url); reason != "" {
		c.Inconclusive("%s", reason)
	}
	r := wire.NewRequest(method, url, c.Target.Key, "")
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			c.stop(Outcome{Verdict: report.Error, Reason: fmt.Sprintf("encoding the body of %s %s: %v", method, url, err)})
		}
		r.Body = text
	}
	for _, option := range o {
		option(&r)
	}
	if (r.Body != nil || r.Stalled) && r.Header["Content-Type"] == nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (c *C) send(r Request) *Answer {
	section, _, _ := strings.Cut(c.Case.ID, "-")
	x, timedOut := c.sendInTime(c.nextExchange(), r)
	if !x.Request.MayHangUp && !isHeldStream(x) {
		c.env.RecordAnswer(section, x, timedOut)
	}
	return c.answer(x)
}

// sendInTime waits for the answer, at most for requestTimeout, or for streamPatience if the body is skipped.
func (c *C) sendInTime(index int, r Request) (x *wire.Exchange, timedOut bool) {
	timeout := requestTimeout(r)
	if r.SkipBody {
		timeout = streamPatience
	}
	if r.SkipBody || c.Target.Advance == nil {
		r.Try = func(context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(c.requests, timeout)
		}
		return c.exchange(c.ctx, index, r), false
	}
	var inFlight atomic.Bool
	r.Try = func(ctx context.Context) (context.Context, context.CancelFunc) {
		inFlight.Store(true)
		return ctx, func() { inFlight.Store(false) }
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	done := make(chan *wire.Exchange, 1)
	go func() { done <- c.exchange(ctx, index, r) }()
	began := c.env.Clock.Now()
	for wait, step := answerPatience+time.Duration(len(r.Body))*patiencePerByte, time.Second; ; wait, step = time.Second, min(2*step, time.Minute) {
		select {
		case x := <-done:
			// The clock may have been advanced since the answer arrived, so the answer arrived now at the latest.
			if now := c.env.Clock.Now(); now.After(x.Received) {
				x.Received = now
			}
			return x, false
		case <-time.After(wait):
		}
		if !inFlight.Load() { // the request waits for the suite's pace, or after a 429
			began = c.env.Clock.Now()
			continue
		}
		if c.env.Clock.Now().Sub(began) > timeout {
			cancel()
			return <-done, true
		}
		c.Sleep(step) // lets the target's time pass, since the target may hold the request
	}
}

// requestTimeout is how long, in the target's time, an answer may take. In real time, each
// advance may have to wait until other cases sleep. /runsync waits for five minutes at most.
func requestTimeout(r Request) time.Duration {
	path, _, _ := strings.Cut(r.URL, "?")
	if strings.HasSuffix(path, "/runsync") {
		return 330 * time.Second
	}
	return time.Minute + time.Duration(len(r.Body))*10*time.Microsecond // 100 kB/s
}

// streamPatience is how long, in real time, a stream may take to begin.
const streamPatience = 10 * time.Second

// isHeldStream reports whether a stream did not begin in time.
func isHeldStream(x *wire.Exchange) bool {
	return x.Request.SkipBody && x.Status == 0 && errors.Is(x.Err, context.DeadlineExceeded)
}

// answerPatience is how long, in real time, an answer may take before the target's clock is
// advanced while the request is pending. It is long, because an advance can make a slow
// case too late to judge. Requests that the target holds are sent with Start.
const answerPatience = 15 * time.Second

// patiencePerByte is added for each byte of a body. 20 MB get 4 s more, enough on a busy
// machine, so that an advance doesn't exceed the target's read time-out.
const patiencePerByte = 200 * time.Nanosecond

// answer ends the case if no answer came. At a target that isn't local, it also ends the case if the answer is incomplete,
// or the error of a gateway or of the management API's rate limit.
func (c *C) answer(x *wire.Exchange) *Answer {
	a := &Answer{Code: x.Status, Header: x.Header, Body: x.Body, Sent: x.Sent, Received: x.Received, c: c, exchange: x}
	a.json, a.parseErr = x.JSON()
	x.ForgetJSON()    // the exchange outlives the case and its answers
	if x.Err != nil { // otherwise the case goes on to record what the request created
		c.stopIfInterrupted()
	}
	switch {
	case x.Status == 0 && x.Request.MayHangUp, isHeldStream(x):
	case x.Err != nil && !c.Target.Local:
		c.Inconclusive("%s: %v", c.describeRequest(x), x.Err)
	case x.Status > http.StatusInternalServerError && a.FromProxy() && !c.Target.Local:
		c.Inconclusive("%s: a gateway answered %d instead of the deployment", c.describeRequest(x), x.Status)
	case x.Status == http.StatusTooManyRequests && env.IsManagement(x.Request.URL) && !c.Target.Local:
		c.Inconclusive("%s: the rate limit of the management API is used up: %s", c.describeRequest(x), c.describeAnswer(x))
	case x.Status == 0:
		c.failWith(x, c.describeAnswer(x), "an answer")
	}
	return a
}

func (c *C) exchange(ctx context.Context, index int, r Request) *wire.Exchange {
	s := &wire.Step{Exchange: &wire.Exchange{Request: r, Sent: c.env.Clock.Now()}, Unanswered: true}
	c.mu.Lock()
	c.steps = append(c.steps, s)
	c.mu.Unlock()
	x := c.replayOrSend(ctx, index, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Quiet { // without the body, since there may be thousands
		*s = wire.Step{Exchange: &wire.Exchange{Request: r, Status: x.Status, Sent: x.Sent, Received: x.Received, Err: x.Err}}
		return x
	}
	*s = wire.Step{Exchange: x}
	c.trace = append(c.trace, x)
	return x
}

func (c *C) exchanges() []*wire.Exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trace[:len(c.trace):len(c.trace)]
}

// Box opens a receiver that the target can call. It answers with the status codes in turn
// and then with the last one, or with 200 if there are none.
func (c *C) Box(answers ...int) *env.Box {
	b, err := c.env.NewBox(answers...)
	if err != nil {
		c.Skip("%v", err)
	}
	return b
}

// Calls waits a short time until the target has called a receiver n times, and returns the calls so far.
func (c *C) Calls(b *env.Box, n int) []env.Call {
	wait := patience
	if !c.Target.Local {
		wait = 10 * time.Second
	}
	return b.Await(n, wait)
}

// ExpectBefore makes the case inconclusive if the answer came at t or later, when another answer may be correct.
func (c *C) ExpectBefore(a *Answer, t time.Time) {
	if !a.Received.Before(t) {
		c.Inconclusive("%s was answered %s too late to judge", c.describeRequest(a.exchange), a.Received.Sub(t).Round(time.Millisecond))
	}
}
