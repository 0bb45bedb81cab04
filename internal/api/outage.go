package api

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// outage remembers a failure that concerns the whole deployment: it can't be
// reached, refuses the key, or something else answers at its address. For a
// while further calls fail at once, so that a run of many objects ends in
// seconds.
type outage struct {
	mu    sync.Mutex
	cause *Error
	until time.Time
}

func (o *outage) begin(e *Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cause, o.until = e, time.Now().Add(limits.outage)
}

func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cause = nil
}

func (o *outage) current() *Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil || !time.Now().Before(o.until) {
		return nil
	}
	return o.cause
}

// duringOutage is the error of a call in an outage: the failure that began it.
func duringOutage(c call, cause *Error) error {
	if c.method == http.MethodGet {
		return cause
	}
	return fmt.Errorf("nothing was sent, for the same reason as before: %w", cause)
}

// isDeploymentWide tells whether every call of the run would fail like this one.
func (t *transport) isDeploymentWide(e *Error) bool {
	switch e.Status {
	case 0:
		return !e.late && !e.idle && (unsent(e.cause) || hopeless(e.cause) && !errors.Is(e.cause, errTooLarge))
	case http.StatusUnauthorized:
		return !t.proof.complete.Load() // else it may be about this object alone
	}
	return false
}

// IsDeploymentWide tells that a failure concerns the whole deployment, so that one
// message says enough for all objects: it can't be reached, it refuses the key,
// or its address is another server's.
func IsDeploymentWide(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.deploymentWide
}
