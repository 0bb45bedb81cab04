package suite

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// step is a request of a case, or several equal ones, in the script that repeats the case.
type step struct {
	request           Request
	sent              time.Time
	count, unanswered int
	first             *wire.Exchange
	received          time.Time // of the last answer
}

func (c *C) beginStep(r Request) *step {
	now := c.env.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.steps) - 1; n >= 0 && r.Quiet && c.steps[n].request.Quiet && sameRequest(c.steps[n].request, r) {
		c.steps[n].count++
		c.steps[n].unanswered++
		return c.steps[n]
	}
	c.steps = append(c.steps, &step{request: r, sent: now, count: 1, unanswered: 1})
	return c.steps[len(c.steps)-1]
}

func sameRequest(a, b Request) bool {
	return a.Method == b.Method && a.URL == b.URL && bytes.Equal(a.Body, b.Body)
}

func (c *C) endStep(s *step, x *wire.Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.unanswered--
	if s.first == nil {
		s.first = x
	}
	if x.Received.After(s.received) {
		s.received = x.Received
	}
}

// scriptTo returns the script of a finished case up to an exchange, or "" if the exchange
// belongs to another case.
func (c *C) scriptTo(last *wire.Exchange, created []env.Object) string {
	steps := c.stepsSoFar()
	for i := range steps {
		if steps[i].Exchange == last {
			return c.writeScript(steps[:i+1], last, created)
		}
	}
	return ""
}

func (c *C) stepsSoFar() (list []wire.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.steps {
		x := s.first
		switch {
		case x == nil:
			x = &wire.Exchange{Request: s.request, Sent: s.sent}
		case s.count > 1: // spans the first and the last request
			x = &wire.Exchange{Request: s.request, Status: x.Status, Sent: x.Sent, Received: s.received, Err: x.Err}
		}
		list = append(list, wire.Step{Exchange: x, Count: s.count, Unanswered: s.unanswered > 0})
	}
	return list
}

// writeScript returns a shell script that sends the requests of the steps and deletes the created
// objects. failed is the exchange to mark, or nil if the failure isn't about a single one.
func (c *C) writeScript(steps []wire.Step, failed *wire.Exchange, created []env.Object) string {
	var cleanup []Request
	for _, m := range created {
		cleanup = append(cleanup, Request{Method: m.Method, URL: m.URL, Header: http.Header{"Authorization": {"Bearer " + c.env.Target.Key}}})
	}
	return wire.Script(steps, failed, cleanup, c.env.Secrets)
}
