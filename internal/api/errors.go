package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cliname"
)

// Error is a request that failed. It holds neither the API key nor a secret of
// the request's body, also where the deployment repeats them.
type Error struct {
	Method string
	URL    string // without query
	Status int    // 0: no answer
	Title  string
	Detail string
	Fields []string // what is wrong with members of the body, such as "$.size: …"

	RequestID  string        // X-Request-Id of the answer
	RetryAfter time.Duration // that the answer asked for, 0 for none
	Tries      int

	keySource      string
	foreign        string        // what answered instead of the API, "" for the API itself
	deploymentWide bool          // concerns the whole deployment, not the object that was asked for
	idle           bool          // interrupted between two tries, of which the last did nothing
	lost           bool          // an earlier try may have been carried out
	late           bool          // the caller's own time was up
	limit          time.Duration // of one try
	timedOut       bool          // no answer within it
	cause          error
}

// Error says what was asked, what came back and what to do.
func (e *Error) Error() string {
	text, advice := e.plain(), e.advice()
	if advice == "" {
		return strings.TrimSuffix(text, ".")
	}
	return text + " " + advice
}

// plain is a sentence without advice.
func (e *Error) plain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.Method, e.URL)
	if e.Status != 0 {
		fmt.Fprintf(&b, "%d %s", e.Status, e.Title)
		if e.Detail != "" && e.Detail != e.Title {
			b.WriteString(": ")
		}
	}
	if e.Detail != e.Title {
		b.WriteString(e.Detail)
	}
	if len(e.Fields) > 0 {
		fmt.Fprintf(&b, " [%s]", strings.Join(e.Fields, "; "))
	}
	var notes []string
	if e.Tries > 1 {
		notes = append(notes, fmt.Sprintf("tried %d times", e.Tries))
	}
	if e.RequestID != "" {
		notes = append(notes, "request id "+e.RequestID)
	}
	if len(notes) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(notes, ", "))
	}
	if !strings.HasSuffix(b.String(), ".") {
		b.WriteString(".")
	}
	return b.String()
}

// advice is what was and was not done, and what a person can do about it.
func (e *Error) advice() string {
	return strings.TrimSpace(e.done() + " " + e.remedy())
}

// done says what became of a write.
func (e *Error) done() string {
	switch sent := e.Tries > 0 && !unsent(e.cause) && !e.idle; {
	case e.Method == http.MethodGet:
		return ""
	case e.ambiguous():
		return "Whether the deployment did it is not known: look before you try again."
	case sent && e.Method != http.MethodPost && (e.lost || e.Status == 0 || e.Status < 300 || e.Status >= 500 && e.Status != http.StatusNotImplemented):
		return "Whether the deployment did it is not known, and doing it again does no harm: apply again."
	}
	return "Nothing was changed."
}

func (e *Error) remedy() string {
	switch {
	case e.late:
		return "The operation's own time was up."
	case e.Status == 0 && errors.Is(e.cause, context.Canceled):
		return ""
	case e.timedOut:
		return "If the deployment needs longer, raise request_timeout in the provider block, or GPUCLOUD_REQUEST_TIMEOUT."
	case e.Status == 0:
		return "Check that the deployment is running and that its address is right."
	case e.Status >= 300 && e.Status < 400:
		return "Set the base address to where the deployment answers itself: the API key is never sent on to another host."
	case e.Status < 300 && e.foreign != "":
		return fmt.Sprintf("The address looks like %s. Check base_url, and what stands between it and the API.", e.foreign)
	case e.Status == http.StatusNotFound && e.foreign != "":
		return fmt.Sprintf("This is not how the management API says that something does not exist: the address looks like %s. Check base_url, and what stands between it and the API.", e.foreign)
	case e.Status == http.StatusUnauthorized:
		return fmt.Sprintf("The API key from %s is wrong or was revoked: set a valid one.", e.keySource)
	case e.Status == http.StatusForbidden:
		return fmt.Sprintf("The API key from %s has no access to this: use a key that has.", e.keySource)
	case e.Status == http.StatusTooManyRequests && e.RetryAfter > limits.longestWait:
		return fmt.Sprintf("The rate limit is exceeded, and the deployment asks to wait %s; %s is the longest that is waited for. Apply again after that.", e.RetryAfter, limits.longestWait)
	case e.Status == http.StatusTooManyRequests && e.RetryAfter > 0:
		return fmt.Sprintf("The rate limit is exceeded: try again in %s, or send fewer requests at a time (%s apply -parallelism=2).", e.RetryAfter, cliname.Name())
	case e.Status == http.StatusTooManyRequests:
		return fmt.Sprintf("The rate limit is exceeded: try again later, or send fewer requests at a time (%s apply -parallelism=2).", cliname.Name())
	case e.Status >= 500:
		return "The deployment failed: try again later."
	}
	return ""
}

// ambiguous tells that the request may have made something.
func (e *Error) ambiguous() bool {
	if e.Method != http.MethodPost {
		return false
	}
	if e.Status == 0 {
		return e.Tries > 0 && !e.idle && !unsent(e.cause)
	}
	return e.Status < 300 || e.Status >= 500
}

// Is lets errors.Is see context.Canceled and the like. The cause itself stays
// hidden: its text is not free of secrets.
func (e *Error) Is(target error) bool { return e.cause != nil && errors.Is(e.cause, target) }

// IsNotFound tells that the API itself answered 404. A 404 of something else at
// the address, such as a proxy, says nothing about the object.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && e.foreign == ""
}

func hasServerError(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status >= 500
}

func repeated(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Tries > 1
}

func hasStatus(err error, status int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == status
}

// failed is a call without an answer.
func (t *transport) failed(c call, tries int, cause error) *Error {
	e := t.newError(c, tries)
	e.cause = cause
	switch {
	case errors.Is(cause, context.Canceled):
		e.Detail = "interrupted"
	case errors.Is(cause, errTooLarge):
		e.Detail = fmt.Sprintf("the answer is larger than %d MiB", limits.answer>>20)
	case timedOut(cause) && unsent(cause):
		e.Detail = fmt.Sprintf("no connection within %s", min(limits.connect, e.limit))
	case timedOut(cause):
		e.Detail, e.timedOut = fmt.Sprintf("no answer within %s", e.limit), true
	default:
		e.Detail = t.clean(c, innermost(cause).Error(), limits.detail)
	}
	return e
}

// refused is an answer that is no success.
func (t *transport) refused(c call, tries int, resp *http.Response, answer []byte) *Error {
	e := t.answered(c, tries, resp)
	e.Title = http.StatusText(resp.StatusCode)
	body := parseErrorBody(resp.Header.Get("Content-Type"), answer)
	if !c.unpaced && !t.isAPIError(c, resp, answer) {
		e.foreign = t.clean(c, describeServer(resp, answer), limits.detail)
	}
	if body.title != "" {
		e.Title = t.clean(c, body.title, limits.detail)
	}
	e.Detail = t.clean(c, body.detail, limits.detail)
	if body.foreign {
		e.Detail = t.clean(c, body.detail, limits.excerpt)
	}
	for _, field := range body.fields[:min(len(body.fields), limits.fields)] {
		e.Fields = append(e.Fields, t.clean(c, field, limits.detail))
	}
	if to, err := resp.Location(); err == nil {
		to.User, to.RawQuery, to.Fragment = nil, "", ""
		e.Detail = "redirected to " + t.clean(c, to.String(), limits.detail)
	}
	return e
}

// unreadable is a success whose body is not what the contract says.
func (t *transport) unreadable(c call, tries int, resp *http.Response, answer []byte, cause error) *Error {
	e := t.answered(c, tries, resp)
	e.Title = http.StatusText(resp.StatusCode)
	e.Detail = "the answer is not what this API answers: " + t.clean(c, cause.Error(), limits.detail)
	if !c.unpaced {
		e.foreign = t.clean(c, describeServer(resp, answer), limits.detail)
	}
	return e
}

func (t *transport) answered(c call, tries int, resp *http.Response) *Error {
	e := t.newError(c, tries)
	e.Status = resp.StatusCode
	e.RequestID = t.clean(c, resp.Header.Get("X-Request-Id"), limits.excerpt)
	e.RetryAfter, _ = retryAfter(resp)
	return e
}

func (t *transport) newError(c call, tries int) *Error {
	return &Error{
		Method: c.method, URL: t.clean(c, c.url, limits.detail), Tries: tries,
		keySource: t.settings.KeySource, limit: t.settings.RequestTimeout + c.patient,
	}
}

// innermost skips the wrapping that repeats the method and the URL.
func innermost(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
