package suite

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Pending is a request in flight.
type Pending struct {
	c        *C
	cancel   context.CancelFunc
	answered context.Context // ends when the answer has arrived
	exchange *wire.Exchange
	arrived  time.Time // the latest time of the answer's arrival
}

// Start sends a request to the job API without waiting for the answer. The clock isn't
// advanced before the request is written.
func (c *C) Start(method, path string, body any, o ...Option) *Pending {
	ctx, cancel := context.WithCancel(c.ctx)
	answered, arrive := context.WithCancel(context.WithoutCancel(c.ctx))
	p := &Pending{c: c, cancel: cancel, answered: answered}
	r := c.request(method, c.env.Target.Queue()+"/v2/"+c.Endpoint+path, body, o)
	index, sent := c.nextExchange(), make(chan struct{})
	markSent := sync.OnceFunc(func() { close(sent) })
	if !r.Stalled {
		c.unsent = append(c.unsent, sent)
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { markSent() }})
	go func() {
		defer arrive()
		defer markSent()
		p.exchange = c.exchange(traced, index, r)
		p.arrived = c.latest(p.exchange)
	}()
	return p
}

// WaitUntilSent waits until the requests of Start are written or have failed, so that no
// advance of the clock overtakes them.
func (c *C) WaitUntilSent() {
	timeout := time.After(patience)
	for _, sent := range c.unsent {
		select {
		case <-sent:
		case <-timeout:
			return
		}
	}
	c.unsent = nil
}

// patience is how long, in real time, an effect may take that needs no time of the target.
const patience = 3 * time.Second

// Unanswered tells whether no answer has arrived yet.
func (p *Pending) Unanswered() bool {
	select {
	case <-p.answered.Done():
		return false
	case <-time.After(5 * time.Millisecond): // for an answer that is on its way
		return true
	}
}

// Until waits until the target's time t, or until the answer arrives. Other cases run
// meanwhile.
func (p *Pending) Until(t time.Time) {
	c := p.c
	if c.deferUntil(t) {
		return
	}
	c.WaitUntilSent()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(p.answered, cancel)()
	err := c.env.Clock.Until(ctx, t)
	if err != nil && (c.ctx.Err() != nil || !p.Answered()) {
		c.clockStopped(err)
	}
}

// Sleep waits for a time of the target, or until the answer arrives.
func (p *Pending) Sleep(d time.Duration) { p.Until(p.c.Now().Add(d)) }

// Answered tells whether the answer has arrived.
func (p *Pending) Answered() bool { return p.answered.Err() != nil }

// ExpectHeld expects that no answer arrived before a time in the past.
func (p *Pending) ExpectHeld(until time.Time) {
	if p.Unanswered() || !p.arrived.Before(until) {
		return
	}
	took := p.exchange.Received.Sub(p.exchange.Sent).Round(time.Millisecond)
	p.c.failWith(p.exchange, fmt.Sprintf("an answer after %s: %s", took, p.c.describeAnswer(p.exchange)), fmt.Sprintf("no answer within %s", until.Sub(p.exchange.Sent).Round(time.Second)))
}

// Answer returns the answer, which should have arrived by now.
func (p *Pending) Answer() *Answer {
	wait := 10 * time.Second // on a busy machine
	if !p.c.Local() {
		wait = 30 * time.Second
	}
	select {
	case <-p.answered.Done():
		return p.c.answer(p.exchange)
	case <-time.After(wait):
	}
	p.Abort()
	p.c.failWith(p.exchange, "no answer yet", "an answer by now")
	return nil
}

// Abort cancels the request.
func (p *Pending) Abort() {
	p.cancel()
	<-p.answered.Done()
}
