package suite

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// step is what a case sent, for those who want to do it again: one request, or
// many that say the same in a load.
type step struct {
	request     Request
	sent        time.Time
	times, open int
	first       *wire.Exchange
	received    time.Time // of the last
}

func (c *C) beginStep(r Request) *step {
	now := c.env.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.steps) - 1; n >= 0 && r.Quiet && c.steps[n].request.Quiet && same(c.steps[n].request, r) {
		c.steps[n].times++
		c.steps[n].open++
		return c.steps[n]
	}
	c.steps = append(c.steps, &step{request: r, sent: now, times: 1, open: 1})
	return c.steps[len(c.steps)-1]
}

func same(a, b Request) bool {
	return a.Method == b.Method && a.URL == b.URL && bytes.Equal(a.Body, b.Body)
}

func (c *C) endStep(s *step, x *wire.Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.open--
	if s.first == nil {
		s.first = x
	}
	if x.Received.After(s.received) {
		s.received = x.Received
	}
}

// script repeats what the case did so far, and takes down what it made. The
// answer to failed was not accepted; nil: it is none of a single one.
func (c *C) script(failed *wire.Exchange) string {
	return c.write(c.stepsSoFar(), failed, c.env.Ledger.Left(c.Case.ID))
}

// scriptTo is the script of a case that is over, as far as an exchange; "" where
// that is of another case.
func (c *C) scriptTo(last *wire.Exchange, made []env.Made) string {
	steps := c.stepsSoFar()
	for i := range steps {
		if steps[i].Exchange == last {
			return c.write(steps[:i+1], last, made)
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
		case s.times > 1: // from the first to the last
			x = &wire.Exchange{Request: s.request, Status: x.Status, Sent: x.Sent, Received: s.received, Err: x.Err}
		}
		list = append(list, wire.Step{Exchange: x, Times: s.times, Open: s.open > 0})
	}
	return list
}

func (c *C) write(steps []wire.Step, failed *wire.Exchange, made []env.Made) string {
	var cleanup []Request
	for _, m := range made {
		cleanup = append(cleanup, Request{Method: m.Method, URL: m.URL, Header: http.Header{"Authorization": {"Bearer " + c.env.Target.Key}}})
	}
	return wire.Script(steps, failed, cleanup, c.env.Secrets)
}
