package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// repeatable are the methods whose request may be sent again when nobody knows
// what became of it: they read, delete, or set absolute values. A POST makes
// something, and sent twice may make it twice.
var repeatable = map[string]bool{
	http.MethodGet:    true,
	http.MethodDelete: true,
	http.MethodPatch:  true,
	http.MethodPut:    true,
	http.MethodPost:   false,
}

// MaxTries is how often a call is sent that fails or gets no answer.
const MaxTries = 4

const (
	maxWaits     = 12              // times that one call obeys Retry-After
	longestWait  = 5 * time.Minute // a longer Retry-After ends the call
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 8 * time.Second

	maxPremature   = 3 // times that a 404 about a recent object is asked again
	firstPremature = 250 * time.Millisecond
)

// Backoff is how long a caller that repeats more than one call waits after so
// many failures, the last of which is given; ok is false where the server asks
// for too long a wait.
func Backoff(failures int, last error) (wait time.Duration, ok bool) {
	wait = backoff(failures)
	if e, isAnswer := errors.AsType[*Error](last); isAnswer {
		wait = max(wait, e.RetryAfter)
	}
	return wait, wait <= longestWait
}

// backoff doubles with each failure.
func backoff(failures int) time.Duration { return min(firstBackoff<<(failures-1), maxBackoff) }

// retryPolicy decides whether one call is tried again, and when. It lives as
// long as the call.
type retryPolicy struct {
	caller     context.Context
	cancel     func()    // ends the call's own context
	throttle   *throttle // nil for none
	entered    bool      // the throttle counts this try as in flight
	repeatable bool
	recent     func() bool // the call is about an object created moments ago
	unproven   bool        // the API has not answered at the address yet

	failures         int  // answered by another try
	premature        int  // 404s about a recent object
	waits            int  // that the server asked for
	mayHaveSucceeded bool // an earlier try, although it was not answered with success
	wait             time.Duration
	resume           func() bool // set during a wait, which an interrupted caller ends
}

// check is asked after each try, and again once the body was read. A wait that would
// outlast the context is not begun: the caller gets the server's answer instead.
func (p *retryPolicy) check(_ context.Context, resp *http.Response, err error) (bool, error) {
	p.releaseThrottle(resp)
	again := p.caller.Err() == nil && p.shouldRetry(resp, err)
	if deadline, ok := p.caller.Deadline(); ok && time.Until(deadline) < p.wait {
		again = false
	}
	if again {
		p.mayHaveSucceeded = p.mayHaveSucceeded || err != nil && !neverSent(err) || err == nil && resp.StatusCode >= 500
		p.resume = context.AfterFunc(p.caller, p.cancel)
	}
	return again, nil
}

// prepare ends a wait before the next try.
func (p *retryPolicy) prepare(*http.Request) error {
	if p.throttle != nil {
		if err := p.throttle.acquire(p.caller); err != nil {
			return err
		}
		p.entered = true
	}
	if !p.resume() {
		p.releaseThrottle(nil)
		return p.caller.Err()
	}
	p.resume = nil
	return nil
}

// releaseThrottle ends a try for the throttle; resp is nil where there is no answer.
func (p *retryPolicy) releaseThrottle(resp *http.Response) {
	if p.entered {
		p.throttle.release(resp)
		p.entered = false
	}
}

// waiting tells that the call ended between two tries.
func (p *retryPolicy) waiting() bool { return p.resume != nil }

func (p *retryPolicy) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration {
	return p.wait
}

// shouldRetry decides whether to try again, and sets the wait before.
func (p *retryPolicy) shouldRetry(resp *http.Response, err error) bool {
	if err != nil {
		if p.unproven && p.failures > 0 && neverSent(err) && isTimeout(err) {
			return false // it is not about to answer
		}
		return !isPermanent(err) && (p.repeatable || neverSent(err)) && p.afterFailure()
	}
	asked, given := retryAfter(resp)
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound:
		return p.recent() && p.afterPremature()
	case status == http.StatusTooManyRequests, // the server did nothing, whatever the method was
		status == http.StatusServiceUnavailable && given && p.repeatable:
		if given && asked > 0 {
			return p.afterWait(asked)
		}
		return p.afterFailure()
	case status >= 500 && status != http.StatusNotImplemented:
		return p.repeatable && p.afterFailure()
	}
	return false
}

func (p *retryPolicy) afterWait(asked time.Duration) bool {
	if p.waits++; p.waits > maxWaits || asked > longestWait {
		return false
	}
	p.wait = asked
	return true
}

// afterPremature waits for a recent object to show.
func (p *retryPolicy) afterPremature() bool {
	if p.premature++; p.premature > maxPremature {
		return false
	}
	p.wait = firstPremature << (p.premature - 1)
	return true
}

// afterFailure backs off exponentially; the jitter keeps parallel requests
// from coming back together.
func (p *retryPolicy) afterFailure() bool {
	if p.failures++; p.failures >= MaxTries {
		return false
	}
	full := backoff(p.failures)
	p.wait = full/2 + rand.N(full/2)
	return true
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// neverSent tells whether the connection failed before anything was sent.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// isPermanent tells whether another try would fail the same way.
func isPermanent(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	name, unresolved := errors.AsType[*net.DNSError](err)
	return untrusted || unresolved && name.IsNotFound || errors.Is(err, errTooLarge)
}

// retryAfter reads the Retry-After header: seconds, or a date by the server's
// own clock.
func retryAfter(resp *http.Response) (wait time.Duration, given bool) {
	value := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, at.Sub(now)), true
}
