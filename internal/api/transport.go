package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// limits are the client's own; those of the service are in the contract.
var limits = struct {
	requestTimeout time.Duration // of one try
	answer         int64         // bytes of an answer
	redirects      int

	answerAfterStop time.Duration   // for what was sent when the caller was interrupted
	settleAfterStop time.Duration   // for a lost answer, from the interruption on
	looks           []time.Duration // pauses before each look for what a lost answer made
	youth           time.Duration   // age until which a 404 may be premature
	premature       int             // times that such a 404 is asked again
	firstLook       time.Duration   // before the first of them, doubled by each further one

	connect      time.Duration // until a connection stands
	outage       time.Duration // for which calls fail at once after a failure of the whole deployment
	tries        int           // of a request that fails or gets no answer
	waits        int           // times that one request obeys Retry-After
	longestWait  time.Duration // a longer Retry-After ends the request
	firstBackoff time.Duration // doubled by each further try
	lastBackoff  time.Duration
	excerpt      int // characters of a body that is no error document
	detail       int // characters of an error's detail or field
	fields       int // field errors that are kept
}{
	requestTimeout: time.Minute,
	answer:         64 << 20,
	redirects:      5,

	answerAfterStop: 4 * time.Second,
	settleAfterStop: 8 * time.Second,
	looks:           []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second},
	youth:           time.Minute,
	premature:       3,
	firstLook:       250 * time.Millisecond,

	connect:      10 * time.Second,
	outage:       30 * time.Second,
	tries:        4,
	waits:        12,
	longestWait:  5 * time.Minute,
	firstBackoff: 500 * time.Millisecond,
	lastBackoff:  8 * time.Second,
	excerpt:      200,
	detail:       2000,
	fields:       50,
}

// transport sends calls with the key and the time-outs of its settings.
type transport struct {
	settings Settings
	young    young
	pace     pace // of the management API
	proof    proof
	outage   outage
}

// call is one request; its tries are made by do.
type call struct {
	method  string
	url     string // without query
	query   url.Values
	body    any           // encoded as JSON; nil for none
	patient time.Duration // added to the time-out of a try
	secrets []string      // in the body, kept out of errors
	unpaced bool          // not of the management API, whose limits count
}

// do sends a call and decodes the answer into out, unless out is nil. Every
// error of the way is an *Error. A write is sent once the other side has proven
// to be this API.
func (t *transport) do(ctx context.Context, c call, out any) error {
	if err := ctx.Err(); err != nil {
		return t.failed(c, 0, err)
	}
	if !c.unpaced {
		if cause := t.outage.current(); cause != nil {
			return duringOutage(c, cause)
		}
		if c.method != http.MethodGet {
			if err := t.prove(ctx, c.url); err != nil {
				return fmt.Errorf("nothing was sent, because no list of the management API could be read first: %w", err)
			}
		}
	}
	var payload any
	var text string
	if c.body != nil {
		encoded, err := json.Marshal(c.body)
		if err != nil {
			return t.failed(c, 0, fmt.Errorf("encoding the body: %w", err))
		}
		payload, text = encoded, string(encoded)
	}
	target := c.url
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	// A write that is under way when the caller is interrupted gets its answer
	// first. Waits between tries end at once.
	sending, release := ctx, context.CancelFunc(func() {})
	if c.method != http.MethodGet {
		sending, release = grace(ctx, limits.answerAfterStop)
	}
	defer release()
	req, err := retryablehttp.NewRequestWithContext(sending, c.method, target, payload)
	if err != nil {
		return t.failed(c, 0, err)
	}
	req.Header.Set("Authorization", "Bearer "+t.settings.APIKey)
	req.Header.Set("User-Agent", t.settings.UserAgent)
	req.Header.Set("Accept", "application/json")
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	var answer []byte
	req.SetResponseHandler(func(resp *http.Response) (err error) {
		answer, err = read(resp.Body)
		return err
	})
	tries, policy := 0, retryPolicy{caller: ctx, stop: release, repeatable: repeatable[c.method], unproven: !t.proof.complete.Load()}
	policy.young = func() bool { return t.young.concerns(c.url, text) }
	if !c.unpaced {
		policy.pace = &t.pace
		if err := t.pace.enter(ctx); err != nil {
			return t.failed(c, 0, err)
		}
		policy.entered = true
	}
	client := retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport:     t.settings.Transport,
			Timeout:       t.settings.RequestTimeout + c.patient,
			CheckRedirect: redirect,
		},
		RetryMax:       math.MaxInt, // the policy counts
		CheckRetry:     policy.check,
		Backoff:        policy.backoff,
		PrepareRetry:   policy.prepare,
		ErrorHandler:   retryablehttp.PassthroughErrorHandler,
		RequestLogHook: func(_ retryablehttp.Logger, _ *http.Request, n int) { tries = n + 1 },
	}
	resp, err := client.Do(req) //nolint:bodyclose // the response handler has read and closed it
	switch {
	case err != nil:
		failure := t.failed(c, tries, err)
		failure.idle = policy.waiting()
		failure.late = errors.Is(ctx.Err(), context.DeadlineExceeded)
		return t.recordFailure(c, failure)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		failure := t.refused(c, tries, resp, answer)
		failure.lost = policy.lost
		return t.recordFailure(c, failure)
	}
	t.young.seen(c.url)
	if out == nil {
		if isHTML(resp.Header.Get("Content-Type"), answer) {
			return t.unreadable(c, tries, resp, answer, errors.New("an HTML page"))
		}
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return t.unreadable(c, tries, resp, answer, err)
	}
	if !c.unpaced {
		t.proof.complete.Store(true)
	}
	return nil
}

// recordFailure takes in what a failure says of the other side.
func (t *transport) recordFailure(c call, e *Error) *Error {
	switch {
	case c.unpaced:
	case e.Status == http.StatusForbidden && e.foreign == "":
		t.proof.complete.Store(true)
	case t.isDeploymentWide(e):
		e.deploymentWide = true
		t.outage.begin(e)
	}
	return e
}

var errTooLarge = errors.New("the answer is larger than this client accepts")

func read(body io.ReadCloser) ([]byte, error) {
	defer body.Close()
	answer, err := io.ReadAll(io.LimitReader(body, limits.answer+1))
	if err == nil && int64(len(answer)) > limits.answer {
		return nil, errTooLarge
	}
	return answer, err
}

// redirect follows a read within the same host only: anywhere else the key
// would leak, and a write would turn into a read.
func redirect(next *http.Request, before []*http.Request) error {
	first := before[0]
	if first.Method != http.MethodGet || len(before) > limits.redirects ||
		next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}
