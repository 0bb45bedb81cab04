package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// idempotent are the methods that may be repeated if the outcome is unknown: they read, delete,
// or set absolute values. A repeated POST might create two objects.
var idempotent = map[string]bool{http.MethodGet: true, http.MethodDelete: true, http.MethodPatch: true, http.MethodPut: true}

// MaxTries limits how often a call without an answer, or with a server error, is sent, except during a restart (maxWaits).
const MaxTries = 4

const (
	maxWaits     = 12              // how often one call waits because of a rate limit, Retry-After or a restart
	longestWait  = 5 * time.Minute // a longer Retry-After ends the call
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 8 * time.Second

	maxPremature404s      = 3 // how often a call is repeated because of a 404 about a recent object
	firstPremature404Wait = 250 * time.Millisecond
)

// Backoff returns the wait after a number of failures, for a caller that repeats several calls.
// ok is false if the server asks for a wait that is too long.
func Backoff(failures int, last error) (wait time.Duration, ok bool) {
	wait = backoff(failures)
	if e, isError := errors.AsType[*Error](last); isError {
		wait = max(wait, e.RetryAfter)
	}
	return wait, wait <= longestWait
}

func backoff(failures int) time.Duration { return min(firstBackoff<<(failures-1), maxBackoff) }

// retryPolicy decides whether and when one call is tried again.
type retryPolicy struct {
	caller        context.Context
	idempotent    bool
	isRecent      func() bool // reports whether the call is about a recently created object
	neverAnswered bool        // the API hasn't answered yet

	premature404s    int  // 404s about a recent object
	waits            int  // because of a rate limit, Retry-After or a restart
	failures         int  // all other failed tries
	mayHaveSucceeded bool // an earlier try may have succeeded, although it got no successful answer
	wait             time.Duration
}

// tryAgain reports whether to try again after an answer or an error, which may come from reading the answer's
// body. It returns false if the wait would outlast the context: the caller then gets the server's answer.
func (p *retryPolicy) tryAgain(resp *http.Response, err error) bool {
	again := p.caller.Err() == nil && p.shouldRetry(resp, err)
	if deadline, ok := p.caller.Deadline(); ok && time.Until(deadline) < p.wait {
		again = false
	}
	if again {
		p.mayHaveSucceeded = p.mayHaveSucceeded || err != nil && !neverSent(err) || err == nil && mayHaveExecuted(resp.StatusCode)
	}
	return again
}

// shouldRetry reports whether to try again, and sets the wait.
func (p *retryPolicy) shouldRetry(resp *http.Response, err error) bool {
	if err != nil {
		if p.neverAnswered && p.failures > 0 && neverSent(err) && isTimeout(err) {
			return false // the server is unlikely to answer
		}
		return !isPermanent(err) && (p.idempotent || neverSent(err)) && p.waitAfterFailure(neverSent(err) && !isTimeout(err))
	}
	delay, ok := retryAfter(resp)
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound:
		p.wait = firstPremature404Wait << p.premature404s
		p.premature404s++
		return p.isRecent() && p.premature404s <= maxPremature404s
	case status == http.StatusTooManyRequests, // the server did nothing, whatever the method
		status == http.StatusServiceUnavailable && ok && p.idempotent:
		switch {
		case delay > 0:
			p.wait = delay
			p.waits++
			return p.waits <= maxWaits && delay <= longestWait
		case status == http.StatusTooManyRequests: // rate limits often last a minute
			return p.waitWithBackoff(&p.waits, maxWaits)
		}
		return p.waitAfterFailure(true)
	case status == http.StatusRequestTimeout, status >= 500 && status != http.StatusNotImplemented:
		return p.idempotent && p.waitAfterFailure(status == http.StatusBadGateway || status == http.StatusServiceUnavailable)
	}
	return false
}

// waitAfterFailure sets the wait after a failure. serverDown means that no server could answer. If the
// API has answered before, it may be restarting, which can take a minute.
func (p *retryPolicy) waitAfterFailure(serverDown bool) bool {
	if serverDown && !p.neverAnswered {
		return p.waitWithBackoff(&p.waits, maxWaits)
	}
	return p.waitWithBackoff(&p.failures, MaxTries-1)
}

// waitWithBackoff increments a count and sets an exponential wait, with jitter against synchronized
// retries. It returns false if the count exceeds the limit.
func (p *retryPolicy) waitWithBackoff(count *int, limit int) bool {
	if *count++; *count > limit {
		return false
	}
	full := backoff(*count)
	p.wait = full/2 + rand.N(full/2)
	return true
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// neverSent reports whether the connection failed before the request was sent.
func neverSent(err error) bool { return failedIn("dial", err) || failedIn("proxyconnect", err) }

func failedIn(operation string, err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == operation
}

// isPermanent reports whether another try would fail the same way.
func isPermanent(err error) bool {
	name, unresolved := errors.AsType[*net.DNSError](err)
	return unresolved && name.IsNotFound || errors.Is(err, ErrTooLarge) || errors.As(err, new(*tls.CertificateVerificationError))
}

// retryAfter parses the Retry-After header: seconds, or a date on the server's clock.
func retryAfter(resp *http.Response) (delay time.Duration, ok bool) {
	value := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(value, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) { // out of range: n is the maximum
		return time.Duration(n) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, date.Sub(now)), true
}

// answerAfterInterrupt limits the wait for the answer to a write in flight after its caller was
// interrupted.
const answerAfterInterrupt = 4 * time.Second

// WithGracePeriod returns a context that ends a given time after ctx does.
func WithGracePeriod(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if Sleep(longer, wait) == nil {
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// Sleep waits, unless the context ends first.
func Sleep(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil || wait <= 0 {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// consistencyWindow is the age below which an object's 404 may be premature.
const consistencyWindow = time.Minute

// RecentCreates holds the ids of objects that were created recently. For a while a deployment
// may answer 404 about such an object (field notes, "create may be ambiguous"). The request is
// then repeated.
type RecentCreates struct {
	mu      sync.Mutex
	created map[string]time.Time // by id
}

// Add records when an object was created. A zero time means now.
func (r *RecentCreates) Add(id string, created time.Time) {
	if created.IsZero() {
		created = time.Now()
	}
	if age := time.Since(created); id == "" || age >= consistencyWindow || age < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.created == nil {
		r.created = map[string]time.Time{}
	}
	r.created[id] = created
}

// Found removes the object of a URL: a later 404 means that it is gone.
func (r *RecentCreates) Found(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.created, url[strings.LastIndex(url, "/")+1:])
}

// Has reports whether an object was created recently and not found since.
func (r *RecentCreates) Has(id string) bool { return r.isNamed("/"+id, "") }

// isNamed reports whether a request names a recent object in its path or body.
func (r *RecentCreates) isNamed(url, body string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, created := range r.created {
		if time.Since(created) >= consistencyWindow {
			delete(r.created, id)
			continue
		}
		if strings.Contains(url+"/", "/"+id+"/") || strings.Contains(body, `"`+id+`"`) {
			return true
		}
	}
	return false
}
