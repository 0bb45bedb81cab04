package suite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Journal is what a case that was put off has seen. It goes on in another
// process, hours later, by beginning anew: what it sees up to where it stopped
// comes from here. So a case that waits for half an hour reads the same whether
// nobody has to wait, somebody does, or nobody is there meanwhile.
//
// Requests are not kept, and so no key is; answers are.
type Journal struct {
	Case string `json:"case"`
	// Due is when the case goes on.
	Due       time.Time   `json:"due"`
	Slept     int         `json:"slept"` // waits that are over
	Times     []time.Time `json:"times"`
	Words     []string    `json:"words"`
	Exchanges []Recorded  `json:"exchanges"`
	// Longest is how long the case may wait before it is put off.
	Longest time.Duration `json:"-"`

	times, words, slept int // how much of it was seen again
}

// Recorded is an answer.
type Recorded struct {
	Request  string      `json:"request"` // method and address, to see that it is the same
	Status   int         `json:"status"`
	Header   http.Header `json:"header,omitempty"`
	Body     []byte      `json:"body,omitempty"`
	Failed   string      `json:"failed,omitempty"`
	Sent     time.Time   `json:"sent"`
	Received time.Time   `json:"received"`
}

// again is the next of what was seen before, or else what is seen now.
func again[T any](seen *[]T, cursor *int, now func() T) T {
	if *cursor == len(*seen) {
		*seen = append(*seen, now())
	}
	*cursor++
	return (*seen)[*cursor-1]
}

// time is the target's time.
func (c *C) time() time.Time {
	if c.journal == nil {
		return c.env.Clock.Now()
	}
	return again(&c.journal.Times, &c.journal.times, c.env.Clock.Now)
}

// word is a new random word.
func (c *C) word(now func() string) string {
	if c.journal == nil {
		return now()
	}
	return again(&c.journal.Words, &c.journal.words, now)
}

// put off ends a case that would wait for too long, to go on later. over tells
// that the wait was over before.
func (c *C) putOff(t time.Time) (over bool) {
	j := c.journal
	if j == nil {
		return false
	}
	j.slept++
	if j.slept <= j.Slept {
		return true
	}
	if wait := t.Sub(c.env.Clock.Now()); wait > j.Longest {
		j.Due = t
		c.stop(Outcome{Verdict: report.Skip, Code: report.SkipDeferred, Reason: fmt.Sprintf("it goes on at %s", t.Format(time.RFC3339))})
	}
	j.Slept = j.slept
	return false
}

// place is that of the exchange that begins now, in the order of the case.
func (c *C) place() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places++
	if c.journal != nil && len(c.journal.Exchanges) < c.places {
		c.journal.Exchanges = append(c.journal.Exchanges, Recorded{})
	}
	return c.places - 1
}

// exchangeAt makes an exchange, or finds it in the journal.
func (c *C) exchangeAt(ctx context.Context, place int, r Request) *wire.Exchange {
	if c.journal == nil {
		return c.env.Do(ctx, r)
	}
	what := c.env.Secrets.Redact(r.Method + " " + r.URL)
	c.mu.Lock()
	was := c.journal.Exchanges[place]
	c.mu.Unlock()
	switch was.Request {
	case "":
	case what:
		x := &wire.Exchange{Request: r, Status: was.Status, Header: was.Header, Body: was.Body, Sent: was.Sent, Received: was.Received}
		if was.Failed != "" {
			x.Err = errors.New(was.Failed)
		}
		return x
	default:
		return &wire.Exchange{Request: r, Err: fmt.Errorf("the case took another way than before: %s, not %s", what, was.Request)}
	}
	x := c.env.Do(ctx, r)
	if ctx.Err() != nil {
		return x
	}
	now := Recorded{Request: what, Status: x.Status, Header: x.Header, Body: x.Body, Sent: x.Sent, Received: x.Received}
	if x.Err != nil {
		now.Failed = c.env.Secrets.Redact(x.Err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal.Exchanges[place] = now
	return x
}
