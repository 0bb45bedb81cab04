// Package httpclient sends JSON requests to a deployment. It extends a library's retries:
//
//   - A write is never repeated unless that is safe. An error says whether the server may have
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
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"

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

	// BeforeWrite is called before each write. If it returns an error, the write isn't sent.
	BeforeWrite func(ctx context.Context, target string) error
	// IsAPIError reports whether an error answer has the form of the API.
	IsAPIError func(target string, status int, answer []byte) bool

	Log Log // may be nil

	RecentCreates RecentCreates

	answered atomic.Bool
	throttle throttle
	outage   outage
}

// Call is one request, which Do may send several times.
type Call struct {
	Method    string
	URL       string // without query
	Query     url.Values
	Body      any           // encoded as JSON; nil for an empty body
	ExtraTime time.Duration // added to the timeout of a try

	// Accept is the media type of the answer; default: JSON. Stream reads a successful answer
	// instead of Do, which then decodes nothing. Stream closes the body.
	Accept string
	Stream func(*http.Response) error

	// Succeeded is called with a decoded successful answer. It may be nil.
	Succeeded func(*Response)

	// List marks the URL of a list: a 404 there doesn't mean that an object is gone.
	List bool

	// Untracked marks a call of another API, which doesn't count for rate limits, outages and
	// the verification of the server.
	Untracked bool

	secrets *redact.Set // removed from errors and logs
}

// Answered reports whether the API has answered: with a decodable answer, or with an error in
// the API's form.
func (c *Client) Answered() bool { return c.answered.Load() }

// Do sends a call and decodes the answer into out, unless out is nil. Every error of the
// request is an *Error. The secrets of the request are added to the context's redact.Set.
func (c *Client) Do(ctx context.Context, call Call, out any) error {
	if call.secrets = redact.FromContext(ctx); call.secrets == nil {
		call.secrets = new(redact.Set)
	}
	call.secrets.Add(c.APIKey)
	if err := ctx.Err(); err != nil {
		return c.NotSent(call, err)
	}
	if !call.Untracked {
		if cause := c.outage.current(); cause != nil {
			return duringOutage(call, cause)
		}
		if call.Method != http.MethodGet && c.BeforeWrite != nil {
			if err := c.BeforeWrite(ctx, call.URL); err != nil {
				return err
			}
		}
	}
	a, failure := c.send(ctx, call)
	switch {
	case failure != nil:
		return c.record(call, failure)
	case out == nil && isHTML(a.resp.Header.Get("Content-Type"), a.body):
		return c.unreadable(call, a, errors.New("an HTML page"))
	case call.Stream != nil && a.body != nil:
		return c.unreadable(call, a, fmt.Errorf("not %s", call.Accept))
	}
	if out != nil {
		if err := Decode(a.body, out); err != nil {
			return c.unreadable(call, a, err)
		}
		if !call.Untracked {
			c.answered.Store(true)
		}
	}
	if call.Succeeded != nil {
		call.Succeeded(c.response(call, a))
	}
	return nil
}

// answer is the last answer to a call.
type answer struct {
	resp  *http.Response
	body  []byte
	tries int
}

// send tries a call until it succeeds or must not be tried again.
func (c *Client) send(ctx context.Context, call Call) (a answer, failure *Error) {
	// If the caller is interrupted, a write in flight still gets its answer. Waits between
	// tries end at once.
	sending, release := ctx, context.CancelFunc(func() {})
	if call.Method != http.MethodGet {
		sending, release = Grace(ctx, answerAfterInterrupt)
	}
	defer release()
	logged := logged{Client: c, call: call, try: &a.tries}
	req, err := c.newRequest(sending, call, &logged)
	if err != nil {
		return a, c.NotSent(call, err)
	}
	req.SetResponseHandler(func(resp *http.Response) (err error) {
		if call.Stream != nil && resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), call.Accept) {
			a.body = nil
			return call.Stream(resp)
		}
		if a.body, err = read(resp.Body); err == nil {
			logged.answered(ctx, a.body)
		}
		return err
	})

	policy := retryPolicy{
		caller: ctx, cancel: release, repeatable: repeatable[call.Method], unproven: !c.Answered(),
		recent: func() bool { return c.RecentCreates.isNamed(call.URL, string(logged.body)) },
	}
	if !call.Untracked {
		policy.throttle = &c.throttle
		if err := c.throttle.acquire(ctx); err != nil {
			return a, c.NotSent(call, err)
		}
		policy.entered = true
	}
	client := retryablehttp.Client{
		HTTPClient:     &http.Client{Transport: logged, Timeout: c.Timeout + call.ExtraTime, CheckRedirect: redirect},
		RetryMax:       math.MaxInt, // retryPolicy limits the tries
		CheckRetry:     policy.check,
		Backoff:        policy.backoff,
		PrepareRetry:   policy.prepare,
		ErrorHandler:   retryablehttp.PassthroughErrorHandler,
		RequestLogHook: func(_ retryablehttp.Logger, _ *http.Request, n int) { a.tries = n + 1 },
	}
	a.resp, err = client.Do(req) //nolint:bodyclose // the response handler has read and closed it
	switch {
	case err != nil:
		failure = c.noAnswer(call, a.tries, err)
		failure.betweenTries = policy.stopWatch != nil
		failure.callerTimedOut = errors.Is(ctx.Err(), context.DeadlineExceeded)
	case a.resp.StatusCode < 200 || a.resp.StatusCode > 299:
		failure = c.answerError(call, a)
	default:
		c.RecentCreates.Found(call.URL)
	}
	if failure != nil {
		failure.mayHaveSucceeded = policy.mayHaveSucceeded
	}
	return a, failure
}

// newRequest makes the request of a call and gives its body to the log.
func (c *Client) newRequest(ctx context.Context, call Call, to *logged) (*retryablehttp.Request, error) {
	var payload any // nil without a body
	if call.Body != nil {
		var err error
		if to.body, err = json.Marshal(call.Body); err != nil {
			return nil, fmt.Errorf("encoding the body: %w", err)
		}
		payload = to.body
		call.secrets.AddJSON(to.body)
	}
	target := call.URL
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, call.Method, target, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.APIKey)
	req.Header.Set("User-Agent", c.UserAgent)
	req.Header.Set("Accept", cmp.Or(call.Accept, "application/json"))
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
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
