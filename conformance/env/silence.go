package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// maxTimeouts is how many consecutive timeouts make a section of the clauses silent: no
// more of its requests are sent. If they belong to more than one section, their API becomes
// silent.
const maxTimeouts = 3

// silence records consecutive timeouts: for each section and each API, the sections of the
// requests that timed out.
type silence struct {
	mu       sync.Mutex
	timeouts map[string][]string
}

// NoteAnswer records whether a request of a section timed out.
func (e *Env) NoteAnswer(section string, x *wire.Exchange, timedOut bool) {
	byNetwork, _ := errors.AsType[net.Error](x.Err)
	timedOut = x.Status == 0 && !x.Sent.IsZero() && (timedOut || errors.Is(x.Err, context.DeadlineExceeded) || byNetwork != nil && byNetwork.Timeout())
	e.silence.mu.Lock()
	defer e.silence.mu.Unlock()
	if e.silence.timeouts == nil {
		e.silence.timeouts = map[string][]string{}
	}
	for _, scope := range []string{section, e.Target.API(x.Request.URL)} {
		switch {
		case e.silence.isSilent(scope): // it remains silent
		case timedOut:
			e.silence.timeouts[scope] = append(e.silence.timeouts[scope], section)
		default:
			delete(e.silence.timeouts, scope)
		}
	}
}

// isSilent tells whether a section or an API is silent.
func (s *silence) isSilent(scope string) bool {
	list := s.timeouts[scope]
	return len(list) >= maxTimeouts && (list[0] == scope || slices.ContainsFunc(list, func(section string) bool { return section != list[0] }))
}

// Silent returns why no more requests of a section are sent to an address, or "" if they
// are.
func (e *Env) Silent(section, address string) string {
	e.silence.mu.Lock()
	defer e.silence.mu.Unlock()
	names := map[string]string{section: "the section " + section, "v1": "version 1 of the management API", "v2": "version 2 of the management API", "jobs": "the job API"}
	for _, scope := range []string{section, e.Target.API(address)} {
		if e.silence.isSilent(scope) {
			return fmt.Sprintf("%d requests in a row timed out in %s: no more are sent there", maxTimeouts, names[scope])
		}
	}
	return ""
}
