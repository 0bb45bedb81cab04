// Package httpclient sends JSON requests to a deployment:
//
//   - A write is repeated only if that is safe. An error says whether the server may have
//     carried it out.
//   - Rate limits that the server announces delay all requests before the server has to reject
//     any.
//   - A failure of the whole deployment ends the run's other calls at once.
//   - A caller that is interrupted still gets the answer to a write in flight.
//   - Errors name the cause and the remedy, contain no secrets, and distinguish the API's
//     answers from a proxy's or another server's.
//
// The package knows neither kinds of objects nor API versions.
package httpclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Client sends calls with a key and timeouts. Set its fields before the first call. Methods may
// be called concurrently.
type Client struct {
	APIKey       string
	KeySource    string // where the key came from, for errors about the key
	UserAgent    string
	Timeout      time.Duration // of one try, including reading its answer
	RoundTripper http.RoundTripper

	// BeforeWrite is called before each write that isn't Untracked. If it returns an error, the write isn't sent.
	BeforeWrite func(ctx context.Context, target string) error
	// IsAPIError reports whether an error answer has the form of the API.
	IsAPIError func(target string, status int, answer []byte) bool

	Log Log // may be nil

	RecentCreates RecentCreates

	answered          atomic.Bool
	untrackedAnswered atomic.Bool // another API has answered
	throttle          throttle
	outage            atomic.Pointer[outage] // nil for none
}

// Call is one request, which Do may send several times.
type Call struct {
	Method    string
	URL       string // without query
	Query     url.Values
	Body      any           // encoded as JSON; nil for an empty body
	ExtraTime time.Duration // added to the timeout of a try

	// Accept is the media type of the answer; default: JSON.
	Accept string
	// Stream reads and closes the body of a successful answer; Do then decodes nothing. It may be nil.
	Stream func(*http.Response) error

	// List marks the URL of a list: a 404 there doesn't mean that an object is gone.
	List bool

	// Untracked marks a call of another API, which doesn't count for rate limits, outages and
	// the verification of the server.
	Untracked bool

	secrets *redact.Set // removed from errors and logs
}

// Answered reports whether the API has answered: with a decodable answer, or with a 403 in the
// API's form.
func (c *Client) Answered() bool { return c.answered.Load() }

// Do sends a call and decodes the answer into out, unless out is nil. Every error is or wraps an
// *Error, except BeforeWrite's. The request's secrets are added to the context's redact.Set.
func (c *Client) Do(ctx context.Context, call Call, out any) (*Response, error) {
	if call.secrets = redact.FromContext(ctx); call.secrets == nil {
		call.secrets = new(redact.Set)
	}
	call.secrets.Add(c.APIKey)
	if err := ctx.Err(); err != nil {
		return nil, c.NotSent(call, err)
	}
	if !call.Untracked {
		if o := c.outage.Load(); o != nil && time.Now().Before(o.endsAt) {
			if call.Method == http.MethodGet {
				return nil, o.cause
			}
			return nil, fmt.Errorf("nothing was sent, for the same reason as before: %w", o.cause)
		}
		if call.Method != http.MethodGet && c.BeforeWrite != nil {
			if err := c.BeforeWrite(ctx, call.URL); err != nil {
				return nil, err
			}
		}
	}
	r, failure := c.send(ctx, call)
	switch {
	case failure != nil:
		return nil, c.record(call, failure)
	case out == nil && isHTML(r.Header.Get("Content-Type"), r.Body):
		return nil, r.otherServerError(errors.New("an HTML page"))
	case call.Stream != nil && r.Body != nil:
		return nil, r.otherServerError(fmt.Errorf("not %s", call.Accept))
	}
	if out != nil {
		if err := Decode(r.Body, out); err != nil {
			return nil, r.otherServerError(err)
		}
		if call.Untracked {
			c.untrackedAnswered.Store(true)
		} else {
			c.answered.Store(true)
		}
	}
	return r, nil
}

// send tries a call until it succeeds or must not be tried again.
func (c *Client) send(ctx context.Context, call Call) (r *Response, failure *Error) {
	// If the caller is interrupted, a write in flight still gets its answer. Waits between
	// tries end at once.
	sendCtx, release := ctx, context.CancelFunc(func() {})
	if call.Method != http.MethodGet {
		sendCtx, release = WithGracePeriod(ctx, answerAfterInterrupt)
	}
	defer release()
	req, body, err := c.newRequest(sendCtx, call)
	if err != nil {
		return nil, c.NotSent(call, err)
	}
	r = &Response{client: c, call: call}
	transport := loggingTransport{Client: c, call: call, body: body, try: &r.tries}
	client := http.Client{Transport: transport, Timeout: c.Timeout + call.ExtraTime, CheckRedirect: redirect}
	policy := retryPolicy{
		caller: ctx, idempotent: idempotent[call.Method], neverAnswered: !c.Answered() && (!call.Untracked || !c.untrackedAnswered.Load()),
		isRecent: func() bool { return c.RecentCreates.isNamed(call.URL, string(body)) },
	}
	failedBetweenTries := false
	for again := true; again; {
		if err = Sleep(ctx, policy.wait); err == nil && !call.Untracked {
			err = c.throttle.acquire(ctx)
		}
		if failedBetweenTries = err != nil; failedBetweenTries {
			break
		}
		r.tries++
		req = req.Clone(sendCtx)
		req.Body, _ = req.GetBody()      // can't fail: the body is in memory
		r.Response, err = client.Do(req) //nolint:bodyclose // discarded or read below
		if !call.Untracked {
			c.throttle.release(r.Response)
		}
		if again = policy.tryAgain(r.Response, err); err == nil && again {
			_, _ = io.CopyN(io.Discard, r.Response.Body, maxDiscarded)
			_ = r.Response.Body.Close()
		} else if err == nil {
			r.Body, err = transport.receive(ctx, r.Response)
			again = err != nil && policy.tryAgain(r.Response, err)
		}
	}
	switch {
	case err != nil:
		failure = c.noAnswer(call, r.tries, err, errors.Is(ctx.Err(), context.DeadlineExceeded))
		failure.failedBetweenTries = failedBetweenTries
	case r.StatusCode < 200 || r.StatusCode > 299:
		failure = r.answerError()
	default:
		c.RecentCreates.Found(call.URL) // a later 404 means that the object is gone
	}
	if failure != nil {
		failure.mayHaveSucceeded = policy.mayHaveSucceeded
	}
	return r, failure
}

func (c *Client) newRequest(ctx context.Context, call Call) (req *http.Request, body []byte, err error) {
	if call.Body != nil {
		var encoded bytes.Buffer
		encoder := json.NewEncoder(&encoded)
		encoder.SetEscapeHTML(false) // an escape takes six bytes of the body's limit
		if err := encoder.Encode(call.Body); err != nil {
			return nil, nil, fmt.Errorf("encoding the body: %w", err)
		}
		body = bytes.TrimSpace(encoded.Bytes())
		call.secrets.AddJSON(body)
	}
	target := call.URL
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	if req, err = http.NewRequestWithContext(ctx, call.Method, target, bytes.NewReader(body)); err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.APIKey)
	req.Header.Set("User-Agent", c.UserAgent)
	req.Header.Set("Accept", cmp.Or(call.Accept, "application/json"))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, body, nil
}

// record updates what the client knows about the deployment after a failure.
func (c *Client) record(call Call, e *Error) *Error {
	switch {
	case call.Untracked || e.Tries == 0:
	case e.Status == http.StatusForbidden && e.OtherServer == "":
		c.answered.Store(true)
	case c.isDeploymentWide(e):
		e.DeploymentWide = true
		c.BeginOutage(e)
	}
	return e
}
