package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// outageLength is how long calls fail at once after a failure of the whole deployment.
const outageLength = 30 * time.Second

// outage remembers a failure of the whole deployment: it can't be reached, it rejects the key,
// or another server answers at its address. For a while, further calls fail at once, so that a
// run with many objects ends within seconds.
type outage struct {
	mu    sync.Mutex
	cause *Error
	until time.Time
}

// BeginOutage makes further calls fail with the same cause.
func (c *Client) BeginOutage(cause *Error) { c.outage.set(cause) }

// EndOutage lets calls be sent again.
func (c *Client) EndOutage() { c.outage.set(nil) }

func (o *outage) set(cause *Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cause, o.until = cause, time.Now().Add(outageLength)
}

func (o *outage) current() *Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil || !time.Now().Before(o.until) {
		return nil
	}
	return o.cause
}

// duringOutage returns the error of a call during an outage.
func duringOutage(call Call, cause *Error) error {
	if call.Method == http.MethodGet {
		return cause
	}
	return fmt.Errorf("nothing was sent, for the same reason as before: %w", cause)
}

// isDeploymentWide reports whether every call of the run would fail like this one.
func (c *Client) isDeploymentWide(e *Error) bool {
	switch e.Status {
	case 0:
		return !e.callerTimedOut && !e.betweenTries && (neverSent(e.cause) || isPermanent(e.cause) && !errors.Is(e.cause, errTooLarge))
	case http.StatusUnauthorized:
		return !c.Answered() // otherwise it may concern only this object
	}
	return false
}
