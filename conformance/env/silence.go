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

// maxTimeouts is how many requests in a row may time out in a section of the clauses before
// no more are sent there. As many that belong to more than one section end an API.
const maxTimeouts = 3

// silence has the sections of the requests in a row that timed out, by section and by API.
type silence struct {
	mu       sync.Mutex
	timeouts map[string][]string
}

// NoteAnswer records whether a request of a section timed out.
func (e *Env) NoteAnswer(section string, x *wire.Exchange, timedOut bool) {
	var byNetwork net.Error
	timedOut = x.Status == 0 && !x.Sent.IsZero() && (timedOut || errors.Is(x.Err, context.DeadlineExceeded) || errors.As(x.Err, &byNetwork) && byNetwork.Timeout())
	e.silence.mu.Lock()
	defer e.silence.mu.Unlock()
	if e.silence.timeouts == nil {
		e.silence.timeouts = map[string][]string{}
	}
	for _, of := range []string{section, e.Target.API(x.Request.URL)} {
		switch {
		case e.silence.isSilent(of): // and stays so
		case timedOut:
			e.silence.timeouts[of] = append(e.silence.timeouts[of], section)
		default:
			delete(e.silence.timeouts, of)
		}
	}
}

// isSilent tells whether a section or an API answers no more.
func (s *silence) isSilent(of string) bool {
	list := s.timeouts[of]
	return len(list) >= maxTimeouts && (list[0] == of || slices.ContainsFunc(list, func(section string) bool { return section != list[0] }))
}

// Silent says why no more requests of a section are sent to an address, "" where they are.
func (e *Env) Silent(section, address string) string {
	e.silence.mu.Lock()
	defer e.silence.mu.Unlock()
	what := map[string]string{section: "the section " + section, "v1": "version 1 of the management API", "v2": "version 2 of the management API", "jobs": "the job API"}
	for _, of := range []string{section, e.Target.API(address)} {
		if e.silence.isSilent(of) {
			return fmt.Sprintf("%d requests in a row timed out in %s: no more are sent there", maxTimeouts, what[of])
		}
	}
	return ""
}
