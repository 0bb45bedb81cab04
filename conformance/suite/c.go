package suite

import (
	"context"
	crypto "crypto/rand"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// M is a JSON object.
type M = map[string]any

// C is a case at work. Its methods belong to the goroutine of the case; only
// what Start began runs beside it.
type C struct {
	Case *Case
	// E is the endpoint that the case asked for, E2 a second one.
	E, E2 string

	ctx      context.Context
	env      *env.Env
	began    time.Time
	soft     *Outcome
	observed string
	crashes  bool     // see Crashes
	fixtures int      // exchanges of the trace that made the fixtures
	journal  *Journal // nil: the case is not put off

	mu     sync.Mutex
	trace  []*wire.Exchange
	steps  []*step // in the order in which they began
	places int     // exchanges that began

	sending []<-chan struct{} // of Start: closed when the request is on its way
}

// Now is the target's time.
func (c *C) Now() time.Time { return c.time() }

// Sleep waits, in the target's time. Other cases run meanwhile.
func (c *C) Sleep(d time.Duration) { c.Until(c.Now().Add(d)) }

// Until waits until a time of the target.
func (c *C) Until(t time.Time) {
	if c.putOff(t) {
		return
	}
	c.sent()
	if err := c.env.Clock.Until(c.ctx, t); err != nil {
		c.clockStopped(err)
	}
}

func (c *C) clockStopped(err error) {
	c.stop(Outcome{Verdict: report.Error, Reason: "waiting in the target's time: " + c.env.Secrets.Redact(err.Error())})
}

// Local tells whether the target is for tests alone.
func (c *C) Local() bool { return c.env.Target.Local }

// HasV1 and HasV2 tell whether a version of the management API is judged.
func (c *C) HasV1() bool { return c.env.Target.HasV1() }
func (c *C) HasV2() bool { return c.env.Target.HasV2() }

// Crashes says that the case lets a worker crash, for which the description
// names 500: elsewhere, a 500 is a fault also where nothing is said of an answer.
func (c *C) Crashes() { c.crashes = true }

// Live tells whether the dialect of the public SDKs is judged.
func (c *C) Live() bool { return c.env.Target.Live }

// Name is a new name, for a thing that the case makes.
func (c *C) Name() string {
	return "conf-" + strings.ToLower(c.Case.ID) + "-" + c.Nonce()[:10]
}

// Nonce is a new word that nobody else has.
func (c *C) Nonce() string { return c.word(func() string { return strings.ToLower(crypto.Text()) }) }

// Random is a source of values for the case, the same one in each run of a seed.
func (c *C) Random() *rand.Rand {
	seed := c.word(func() string { return strconv.FormatUint(c.env.Seed, 10) }) // also of the run that put the case off
	h := fnv.New64a()
	_, _ = io.WriteString(h, seed+c.Case.ID) // a hash takes everything
	return rand.New(rand.NewPCG(h.Sum64(), 0))
}

// Secret is a new word that must be shown nowhere.
func (c *C) Secret(name string) string {
	secret := "planted-" + c.Nonce()
	c.env.Secrets.Add(name, secret)
	return secret
}

// Keys of the target: Key opens everything, OtherKey is valid and opens nothing
// that the suite uses, UserKey is another user's and opens everything.
func (c *C) Key() string      { return c.env.Target.Key }
func (c *C) OtherKey() string { return c.env.Target.OtherKey }
func (c *C) UserKey() string  { return c.env.Target.UserKey }

// Request is what the options of a request change. API requests begin with the
// key as bearer token, and a JSON body's type.
type Request = wire.Request

// Option changes a request.
type Option func(*Request)

// With sends a header in place of the one there is.
func With(name, value string) Option {
	return func(r *Request) { r.Header.Set(name, value) }
}

// As sends another key.
func As(key string) Option { return With("Authorization", "Bearer "+key) }

// WithoutKey sends none.
func WithoutKey() Option {
	return func(r *Request) { r.Header.Del("Authorization") }
}

// Raw sends a body as it is.
func Raw[T string | []byte](body T) Option {
	return func(r *Request) { r.Body = []byte(body) }
}

// Chunked sends the body without saying its length.
func Chunked() Option { return func(r *Request) { r.Chunked = true } }

// Stalled never sends the body that it announces.
func Stalled() Option { return func(r *Request) { r.Stalled = true } }

// Unread leaves the body of a 200 unread.
func Unread() Option { return func(r *Request) { r.Unread = true } }

// MayHangUp takes a connection that is closed while the body is sent for an
// answer, whose code is 0.
func MayHangUp() Option { return func(r *Request) { r.MayHangUp = true } }

// Quiet keeps a request out of the trace, for the hundreds of a load.
func Quiet() Option { return func(r *Request) { r.Quiet = true } }

// Get and Post ask the job API of the case's own endpoint.
func (c *C) Get(path string, o ...Option) *Answer { return c.Job("GET", c.E, path, nil, o...) }
func (c *C) Post(path string, body any, o ...Option) *Answer {
	return c.Job("POST", c.E, path, body, o...)
}

// Job asks the job API of an endpoint.
func (c *C) Job(method, endpoint, path string, body any, o ...Option) *Answer {
	return c.Do(method, c.env.Target.Queue()+"/v2/"+endpoint+path, body, o...)
}

// V1 and V2 ask the management API; path is the one after the version.
func (c *C) V1(method, path string, body any, o ...Option) *Answer {
	return c.Do(method, c.env.Target.V1()+"/v1"+path, body, o...)
}

func (c *C) V2(method, path string, body any, o ...Option) *Answer {
	return c.Do(method, c.env.Target.V2()+"/v2"+path, body, o...)
}

// Do asks any address. A body that is not nil is sent as JSON.
func (c *C) Do(method, url string, body any, o ...Option) *Answer {
	return c.send(c.request(method, url, body, o))
}

func (c *C) request(method, url string, body any, o []Option) Request {
	r := Request{Method: method, URL: url, Header: http.Header{"Authorization": {"Bearer " + c.env.Target.Key}}}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			c.stop(Outcome{Verdict: report.Error, Reason: fmt.Sprintf("the case's own body: %v", err)})
		}
		r.Body = text
	}
	for _, change := range o {
		change(&r)
	}
	if (r.Body != nil || r.Stalled) && r.Header["Content-Type"] == nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (c *C) send(r Request) *Answer {
	place := c.place()
	if c.env.Target.Advance == nil {
		ctx, cancel := context.WithTimeout(c.ctx, longest(r))
		defer cancel()
		return c.answer(c.exchange(ctx, place, r))
	}
	done := make(chan *wire.Exchange, 1)
	go func() { done <- c.exchange(c.ctx, place, r) }()
	for wait, held := soon+time.Duration(len(r.Body))*perByte, time.Second; ; wait, held = time.Millisecond, min(2*held, time.Minute) {
		select {
		case x := <-done:
			// What came while the time was moved on came by the time that it is now.
			if now := c.env.Clock.Now(); now.After(x.Received) {
				x.Received = now
			}
			return c.answer(x)
		case <-time.After(wait):
			// The target holds the request, or is slow: time may pass meanwhile.
			c.Sleep(held)
		}
	}
}

// longest is how long an answer may take where nobody can advance the time, so
// that a target that holds every request does not hold the run: /runsync waits
// for five minutes at most.
func longest(r Request) time.Duration {
	path, _, _ := strings.Cut(r.URL, "?")
	if strings.HasSuffix(path, "/runsync") {
		return 330 * time.Second
	}
	return time.Minute + time.Duration(len(r.Body))*10*time.Microsecond // 100 kB a second
}

// soon is how long, on the wall, an answer may take that needs no time of the
// target, before time passes all the same.
const soon = 500 * time.Millisecond

// perByte is what a body may take beyond that: 20 MB have 4 s, on a machine that
// is busy with other things, before the target may say that they come too late.
const perByte = 200 * time.Nanosecond

// answer ends the case where nothing at all came.
func (c *C) answer(x *wire.Exchange) *Answer {
	a := newAnswer(c, x)
	switch {
	case c.ctx.Err() != nil:
		c.stop(Outcome{Verdict: report.Error, Reason: "interrupted"})
	case x.Status == 0 && x.Request.MayHangUp:
	case x.Status == 0 && !c.Local():
		c.Inconclusive("%s: %v", c.brief(x), x.Err)
	case x.Status == 0:
		c.came(x, c.told(x), "an answer")
	}
	return a
}

func (c *C) exchange(ctx context.Context, place int, r Request) *wire.Exchange {
	s := c.beginStep(r)
	x := c.exchangeAt(ctx, place, r)
	c.endStep(s, x)
	if !r.Quiet {
		c.mu.Lock()
		c.trace = append(c.trace, x)
		c.mu.Unlock()
	}
	return x
}

// exchanges are those so far.
func (c *C) exchanges() []*wire.Exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trace[:len(c.trace):len(c.trace)]
}

// Pending is a request that the target holds.
type Pending struct {
	c      *C
	cancel context.CancelFunc
	done   chan struct{}
	x      *wire.Exchange
}

// Start asks the job API and does not wait for the answer: time may be advanced
// while the target holds it, and is not before it has it.
func (c *C) Start(method, path string, body any, o ...Option) *Pending {
	ctx, cancel := context.WithCancel(c.ctx)
	p := &Pending{c: c, cancel: cancel, done: make(chan struct{})}
	r := c.request(method, c.env.Target.Queue()+"/v2/"+c.E+path, body, o)
	place, sent := c.place(), make(chan struct{})
	over := sync.OnceFunc(func() { close(sent) })
	if !r.Stalled {
		c.sending = append(c.sending, sent)
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { over() }})
	go func() {
		defer close(p.done)
		defer over()
		p.x = c.exchange(traced, place, r)
	}()
	return p
}

// Sent waits until the requests of Start are on their way.
func (c *C) Sent() { c.sent() }

// sent waits until the requests of Start are on their way, which else an advance
// of the time might overtake, or over.
func (c *C) sent() {
	late := time.After(patience)
	for _, sent := range c.sending {
		select {
		case <-sent:
		case <-late:
			return
		}
	}
	c.sending = nil
}

// patience is how long, on the wall, something may take that needs no time of
// the target.
const patience = 3 * time.Second

// Open tells whether there is no answer yet.
func (p *Pending) Open() bool {
	select {
	case <-p.done:
		return false
	case <-time.After(5 * time.Millisecond): // what was sent by now arrives
		return true
	}
}

// Until waits until a time of the target, or until the answer is there: nobody
// waits for what can't come any more. Other cases run meanwhile.
func (p *Pending) Until(t time.Time) {
	c := p.c
	if c.putOff(t) {
		return
	}
	c.sent()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := c.env.Clock.Until(ctx, t)
	cancel()
	<-answered
	if err != nil && (c.ctx.Err() != nil || !p.Over()) {
		c.clockStopped(err)
	}
}

// Sleep is Until for a time from now on.
func (p *Pending) Sleep(d time.Duration) { p.Until(p.c.Now().Add(d)) }

// Over tells whether there is an answer already.
func (p *Pending) Over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Held expects that no answer came before a time, which is over by now.
func (p *Pending) Held(until time.Time) {
	if p.Open() || !p.x.Received.Before(until) {
		return
	}
	took := p.x.Received.Sub(p.x.Sent).Round(time.Millisecond)
	p.c.came(p.x, fmt.Sprintf("an answer after %s: %s", took, p.c.told(p.x)), fmt.Sprintf("no answer before %s are over", until.Sub(p.x.Sent).Round(time.Second)))
}

// Answer is the answer, which should be there by now.
func (p *Pending) Answer() *Answer {
	wait := patience
	if !p.c.Local() {
		wait = 30 * time.Second
	}
	select {
	case <-p.done:
		return p.c.answer(p.x)
	case <-time.After(wait):
	}
	p.Drop()
	p.c.came(p.x, "no answer yet", "an answer by now")
	return nil
}

// Drop breaks the request off.
func (p *Pending) Drop() {
	p.cancel()
	<-p.done
}

// Box opens an address that the target can call. It answers with these status
// codes in turn; none: 200.
func (c *C) Box(answers ...int) *env.Box {
	b, err := c.env.NewBox(answers...)
	if err != nil {
		c.Skip("%v", err)
	}
	return b
}

// Calls are the calls of a box once there are n of them; it waits a moment for
// those that are under way.
func (c *C) Calls(b *env.Box, n int) []env.Call {
	wait := patience
	if !c.Local() {
		wait = 10 * time.Second
	}
	return b.Await(n, wait)
}

// QueueURL is the address of the job API, without /v2.
func (c *C) QueueURL() string { return c.env.Target.Queue() }

// Alone tells whether nobody else uses the case's endpoint.
func (c *C) Alone() bool { return c.E != c.env.Target.Endpoint }

// Before makes the case inconclusive where an answer came only after a time by
// which it might rightly be another one.
func (c *C) Before(a *Answer, t time.Time) {
	if !a.Received.Before(t) {
		c.Inconclusive("%s was answered %s too late to tell", c.brief(a.x), a.Received.Sub(t).Round(time.Millisecond))
	}
}
