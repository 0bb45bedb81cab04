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

// Journal records the inputs of a deferred case. The case resumes hours later, in another
// process: it runs again from its start, and the journal replays times, random words and answers
// up to the point at which it stopped. So a case that waits for half an hour needs no code to
// resume.
//
// The journal records answers, but no header and body of a request, so it contains no key.
type Journal struct {
	Case string `json:"case"`
	// Due is when the case resumes.
	Due           time.Time        `json:"due"`
	FinishedWaits int              `json:"finishedWaits"`
	Times         []time.Time      `json:"times"`
	Words         []string         `json:"words"`
	Exchanges     []recordedAnswer `json:"exchanges"`
	// MaxWait is the longest wait that doesn't defer the case.
	MaxWait time.Duration `json:"-"`

	timesReplayed, wordsReplayed int // how many of each were replayed
	waits                        int // how many waits this run has reached

	isEndpointChecked bool
}

type recordedAnswer struct {
	Request  string      `json:"request"` // method and address, to check that the resumed case sends the same
	Status   int         `json:"status"`
	Header   http.Header `json:"header,omitempty"`
	Body     []byte      `json:"body,omitempty"`
	Error    string      `json:"failed,omitempty"`
	Sent     time.Time   `json:"sent"`
	Received time.Time   `json:"received"`
}

// replayOrRecord returns the next recorded value, or else records the current one.
func replayOrRecord[T any](recorded *[]T, cursor *int, current func() T) T {
	if *cursor == len(*recorded) {
		*recorded = append(*recorded, current())
	}
	*cursor++
	return (*recorded)[*cursor-1]
}

func (c *C) randomWord(draw func() string) string {
	if c.journal == nil {
		return draw()
	}
	return replayOrRecord(&c.journal.Words, &c.journal.wordsReplayed, draw)
}

// deferUntil ends the case if the wait is too long, to resume it later. waited says that an earlier run has waited.
func (c *C) deferUntil(t time.Time) (waited bool) {
	j := c.journal
	if j == nil {
		return false
	}
	j.waits++
	if j.waits <= j.FinishedWaits {
		return true
	}
	if wait := t.Sub(c.env.Clock.Now()); wait > j.MaxWait {
		j.Due = t
		c.stop(Outcome{Verdict: report.Skip, Code: report.SkipDeferred, Reason: fmt.Sprintf("it resumes at %s", t.Format(time.RFC3339))})
	}
	if !j.Due.IsZero() && !j.isEndpointChecked {
		j.isEndpointChecked = true
		c.checkEndpoint()
	}
	return false
}

// checkEndpoint ends a resumed case if its endpoint was deleted: its jobs would also return 404 as if they had expired.
func (c *C) checkEndpoint() {
	if c.Endpoint == "" {
		return
	}
	x := c.env.Do(c.ctx, wire.NewRequest(http.MethodGet, c.jobURL(c.Endpoint, "/health"), c.Target.Key, ""))
	if x.Status == http.StatusNotFound || x.Status == http.StatusGone {
		c.Inconclusive("the endpoint %s of the deferred case was deleted", c.Endpoint)
	}
}

// nextExchange returns the index of the exchange that begins now.
func (c *C) nextExchange() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchangesBegun++
	if c.journal != nil && len(c.journal.Exchanges) < c.exchangesBegun {
		c.journal.Exchanges = append(c.journal.Exchanges, recordedAnswer{})
	}
	return c.exchangesBegun - 1
}

// replayOrSend replays an exchange from the journal, or sends the request.
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
		return &wire.Exchange{Request: r, Err: fmt.Errorf("the resumed case sent a different request: expected %s, got %s", recorded.Request, requestLine)}
	}
	x := c.env.Do(ctx, r)
	if ctx.Err() != nil {
		return x
	}
	answer := recordedAnswer{Request: requestLine, Status: x.Status, Header: x.Header, Body: x.Body, Sent: x.Sent, Received: x.Received}
	if x.Err != nil {
		answer.Error = c.env.Secrets.Redact(x.Err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal.Exchanges[index] = answer
	return x
}
