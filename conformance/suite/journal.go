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

// Journal records what a deferred case has seen. The case resumes in another
// process, hours later, by running again from its start: up to where it stopped,
// times, random words and answers are replayed from the journal. So a case that
// waits for half an hour needs no code of its own for that.
//
// Answers are recorded and requests are not, so the journal holds no key.
type Journal struct {
	Case string `json:"case"`
	// Due is when the case resumes.
	Due       time.Time        `json:"due"`
	Slept     int              `json:"slept"` // waits that are over
	Times     []time.Time      `json:"times"`
	Words     []string         `json:"words"`
	Exchanges []RecordedAnswer `json:"exchanges"`
	// Longest is the longest wait for which the case is not deferred.
	Longest time.Duration `json:"-"`

	timesReplayed, wordsReplayed, waitsReplayed int // how many of each were replayed
}

// RecordedAnswer is an answer in a journal.
type RecordedAnswer struct {
	Request  string      `json:"request"` // method and address, to check that the resumed case sends the same
	Status   int         `json:"status"`
	Header   http.Header `json:"header,omitempty"`
	Body     []byte      `json:"body,omitempty"`
	Error    string      `json:"failed,omitempty"`
	Sent     time.Time   `json:"sent"`
	Received time.Time   `json:"received"`
}

// replayOrRecord is the next of what was seen before, or else what is seen now.
func replayOrRecord[T any](recorded *[]T, cursor *int, current func() T) T {
	if *cursor == len(*recorded) {
		*recorded = append(*recorded, current())
	}
	*cursor++
	return (*recorded)[*cursor-1]
}

// targetTime returns the target's time.
func (c *C) targetTime() time.Time {
	if c.journal == nil {
		return c.env.Clock.Now()
	}
	return replayOrRecord(&c.journal.Times, &c.journal.timesReplayed, c.env.Clock.Now)
}

// randomWord returns a new random word.
func (c *C) randomWord(draw func() string) string {
	if c.journal == nil {
		return draw()
	}
	return replayOrRecord(&c.journal.Words, &c.journal.wordsReplayed, draw)
}

// deferUntil ends a case that would wait for too long; it resumes later. over tells
// that the wait was over in an earlier run.
func (c *C) deferUntil(t time.Time) (over bool) {
	j := c.journal
	if j == nil {
		return false
	}
	j.waitsReplayed++
	if j.waitsReplayed <= j.Slept {
		return true
	}
	if wait := t.Sub(c.env.Clock.Now()); wait > j.Longest {
		j.Due = t
		c.stop(Outcome{Verdict: report.Skip, Code: report.SkipDeferred, Reason: fmt.Sprintf("it resumes at %s", t.Format(time.RFC3339))})
	}
	j.Slept = j.waitsReplayed
	return false
}

// nextExchange returns the index of the exchange that begins now.
func (c *C) nextExchange() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchangesBegun++
	if c.journal != nil && len(c.journal.Exchanges) < c.exchangesBegun {
		c.journal.Exchanges = append(c.journal.Exchanges, RecordedAnswer{})
	}
	return c.exchangesBegun - 1
}

// replayOrSend finds an exchange in the journal, or sends the request.
func (c *C) replayOrSend(ctx context.Context, index int, r Request) *wire.Exchange {
	if c.journal == nil {
		return c.env.Do(ctx, r)
	}
	requestLine := c.env.Secrets.Redact(r.Method + " " + r.URL)
	c.mu.Lock()
	recorded := c.journal.Exchanges[index]
	c.mu.Unlock()
	switch recorded.Request {
	case "":
	case requestLine:
		x := &wire.Exchange{Request: r, Status: recorded.Status, Header: recorded.Header, Body: recorded.Body, Sent: recorded.Sent, Received: recorded.Received}
		if recorded.Error != "" {
			x.Err = errors.New(recorded.Error)
		}
		return x
	default:
		return &wire.Exchange{Request: r, Err: fmt.Errorf("the resumed case sent another request than before: expected %s, got %s", recorded.Request, requestLine)}
	}
	x := c.env.Do(ctx, r)
	if ctx.Err() != nil {
		return x
	}
	answer := RecordedAnswer{Request: requestLine, Status: x.Status, Header: x.Header, Body: x.Body, Sent: x.Sent, Received: x.Received}
	if x.Err != nil {
		answer.Error = c.env.Secrets.Redact(x.Err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal.Exchanges[index] = answer
	return x
}
