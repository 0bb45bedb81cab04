package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Limits of an error's parts.
const (
	maxExcerpt = 200  // characters of a body that isn't an error document
	maxDetail  = 2000 // characters of the detail and of each field error
	maxFields  = 50   // number of field errors
)

// NotSent returns the error of a call that wasn't sent. If the caller's time ended, cause is context.DeadlineExceeded.
func (c *Client) NotSent(call Call, cause error) *Error {
	return c.noAnswer(call, 0, cause, errors.Is(cause, context.DeadlineExceeded))
}

func (c *Client) noAnswer(call Call, tries int, cause error, callerTimedOut bool) *Error {
	e := c.newError(call, tries)
	e.cause, e.callerTimedOut = cause, callerTimedOut
	switch {
	case errors.Is(cause, context.Canceled):
		e.Detail = "interrupted"
	case callerTimedOut && tries == 0:
		e.Detail = "not sent"
	case callerTimedOut && isTimeout(cause):
		e.Detail, e.TimedOut = "no answer in time", true
	case errors.Is(cause, ErrTooLarge):
		e.Detail = fmt.Sprintf("the answer is larger than %d MiB", maxAnswer>>20)
	case isTimeout(cause) && neverSent(cause):
		e.Detail = fmt.Sprintf("no connection within %s", min(connectTimeout, e.timeout))
	case isTimeout(cause):
		e.Detail, e.TimedOut = fmt.Sprintf("no answer within %s", e.timeout), true
	default:
		if wrapped, ok := errors.AsType[*url.Error](cause); ok { // it repeats the method and the URL
			cause = wrapped.Err
		}
		e.Detail = c.sanitize(call, cause.Error(), maxDetail)
	}
	return e
}

// Response is the last answer to a call.
type Response struct {
	*http.Response
	Body []byte

	client *Client
	call   Call
	tries  int
}

// answerError returns the error of an answer that isn't a success.
func (r *Response) answerError() *Error {
	body := parseErrorBody(r.Header.Get("Content-Type"), r.Body)
	e := r.Failure(body.detail)
	if !r.call.Untracked && r.client.IsAPIError != nil && !r.client.IsAPIError(r.call.URL, r.StatusCode, r.Body) {
		e.OtherServer = r.describeServer()
	}
	if body.title != "" {
		e.Title = r.sanitize(body.title, maxDetail)
	}
	if body.raw {
		e.Detail = r.sanitize(body.detail, maxExcerpt)
	}
	for _, field := range body.fields[:min(len(body.fields), maxFields)] {
		e.Fields = append(e.Fields, r.sanitize(field, maxDetail))
	}
	if e.Status == http.StatusForbidden {
		e.Scope = r.sanitize(missingScope(r.Header, r.Body), maxExcerpt)
	}
	if target, err := r.Location(); err == nil && r.StatusCode < 400 {
		target.User, target.RawQuery, target.Fragment = nil, "", ""
		e.Detail = "redirected to " + r.sanitize(target.String(), maxDetail)
	}
	return e
}

// Failure returns an error with the detail for an answer that can't be accepted.
func (r *Response) Failure(detail string) *Error {
	e := r.client.newError(r.call, r.tries)
	e.Status, e.Title, e.Detail = r.StatusCode, http.StatusText(r.StatusCode), r.sanitize(detail, maxDetail)
	e.RequestID = r.sanitize(r.Header.Get("X-Request-Id"), maxExcerpt)
	e.RetryAfter, _ = retryAfter(r.Response)
	return e
}

func (r *Response) sanitize(text string, limit int) string {
	return r.client.sanitize(r.call, text, limit)
}

// UnreadableError returns the error of a successful answer that doesn't match the API.
func (r *Response) UnreadableError(cause error) *Error {
	e := r.Failure(cause.Error())
	e.Detail = "the response doesn't match this API: " + e.Detail
	return e
}

// otherServerError is UnreadableError for an answer that may come from another server.
func (r *Response) otherServerError(cause error) *Error {
	e := r.UnreadableError(cause)
	if !r.call.Untracked {
		e.OtherServer = r.describeServer()
	}
	return e
}

func (c *Client) newError(call Call, tries int) *Error {
	return &Error{
		Method: call.Method, URL: c.sanitize(call, call.URL, maxDetail), Tries: tries, List: call.List,
		keySource: c.KeySource, timeout: c.Timeout + call.ExtraTime,
	}
}

// outageLength is the time in which calls fail at once after a failure of the whole deployment.
const outageLength = 30 * time.Second

// outage remembers a failure of the whole deployment: it can't be reached, it rejects the key,
// or another server answers at its address. For a while, further calls fail at once, so that a
// run with many objects ends within seconds.
type outage struct {
	cause  *Error
	endsAt time.Time
}

// BeginOutage makes further calls fail with the same cause.
func (c *Client) BeginOutage(cause *Error) {
	c.outage.Store(&outage{cause, time.Now().Add(outageLength)})
}

// EndOutage lets calls be sent again.
func (c *Client) EndOutage() { c.outage.Store(nil) }

// isDeploymentWide reports whether every call of the run would fail like this one.
func (c *Client) isDeploymentWide(e *Error) bool {
	switch e.Status {
	case 0:
		return !e.callerTimedOut && !e.failedBetweenTries && !errors.Is(e.cause, context.Canceled) && (neverSent(e.cause) || isPermanent(e.cause) && !errors.Is(e.cause, ErrTooLarge))
	case http.StatusUnauthorized:
		return !c.Answered() // if the key worked before, the 401 may concern only this object
	}
	return false
}
