package conformance

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// exchangeWatch passes the answered exchanges of the run to the cases that have a Watch function.
type exchangeWatch struct {
	target  *env.Target
	secrets *wire.Secrets
	cases   []*suite.Case

	mu     sync.Mutex
	jobs   map[string]jobSighting
	faults map[string]watchFault // the first of each case
}

// watchFault is a failure that Case.Watch found.
type watchFault struct {
	steps, actual string
	exchange      *wire.Exchange
}

// jobSighting is the last status seen of a job.
type jobSighting struct {
	status string
	// at is when the status was received. After an answer to /cancel, it is the time until which reads may
	// still show the previous status.
	at         time.Time
	fromCancel bool // the status is from an answer to /cancel
	retried    bool // /retry was sent after the status
}

func (w *exchangeWatch) fault(id string) watchFault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults[id]
}

// observe passes on a finished exchange. Cases call it concurrently.
func (w *exchangeWatch) observe(x *wire.Exchange) {
	if len(w.cases) == 0 || x.Request.Quiet || x.Err != nil {
		return
	}
	// Parsing a long body takes a while, so it happens outside of the lock.
	body, _ := x.JSON()
	members, _ := body.(map[string]any) // the body may be an array, as in an answer to /stream
	id, _ := members["id"].(string)
	status, _ := members["status"].(string)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.describe(x, id, status)
	for _, c := range w.cases {
		if _, found := w.faults[c.ID]; found {
			continue
		}
		if text := c.Watch(s); text != "" {
			answer := fmt.Sprintf("%d %s", x.Status, strings.TrimSpace(w.secrets.Cut(x.Body, 300)))
			w.faults[c.ID] = watchFault{w.secrets.Redact(x.Request.Method + " " + x.Request.URL), w.secrets.Redact(text + ": " + answer), x}
		}
	}
}

// describe converts an exchange for Watch. id and status are members of its body.
func (w *exchangeWatch) describe(x *wire.Exchange, id, status string) *suite.WatchedExchange {
	s := &suite.WatchedExchange{Exchange: x}
	s.API, s.Path = w.target.API(x.Request.URL)
	if s.API == "jobs" {
		endpoint, rest, _ := strings.Cut(s.Path[1:], "/")
		s.Path = "/" + rest
		w.follow(s, endpoint, id, status)
	}
	return s
}

// follow records the status of a job that an exchange of the job API shows.
func (w *exchangeWatch) follow(s *suite.WatchedExchange, endpoint, id, status string) {
	operation, pathID, _ := strings.Cut(strings.TrimPrefix(s.Path, "/"), "/")
	switch operation {
	case "run", "runsync":
	case "status", "cancel", "retry":
		id, _ = url.PathUnescape(pathID) // the suite has escaped it
	default:
		return
	}
	if id == "" {
		return
	}
	job := endpoint + "/" + id
	last := w.jobs[job]
	if operation == "retry" {
		last.retried = true
		w.jobs[job] = last
	}
	if s.Exchange.Status/100 != 2 {
		return
	}
	// The description doesn't say what /runsync answers if its wait ends before the job does.
	if operation == "runsync" && !slices.Contains(suite.Statuses, status) {
		return
	}
	s.Status = status
	// Nor does it say what /cancel answers about a job that has ended, perhaps again after a retry.
	if operation == "cancel" && suite.IsFinal(last.status) {
		return
	}
	// The order of two concurrent exchanges is unknown.
	if last.status != "" && last.at.Before(s.Sent) {
		s.PreviousStatus, s.RetriedSince = last.status, last.retried
	}
	switch {
	case s.Status == "" || operation == "retry":
	case operation == "cancel":
		w.jobs[job] = jobSighting{status: s.Status, at: s.Received.Add(w.target.Grace()), fromCancel: true}
	case last.fromCancel && last.status != s.Status && s.Sent.Before(last.at): // the read may still show the state before the cancellation
	default:
		w.jobs[job] = jobSighting{status: s.Status, at: s.Received, retried: last.retried && last.status == s.Status}
	}
}
