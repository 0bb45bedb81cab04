package conformance

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// watch shows every exchange to the cases that watch all.
type watch struct {
	target *env.Target
	cases  []*suite.Case

	mu     sync.Mutex
	jobs   map[string]sighting
	faults map[string]fault // by case; the first one
	hide   *wire.Secrets
}

// sighting is when a job was last seen with a status.
type sighting struct {
	status  string
	at      time.Time
	retried bool
	// acknowledged says that the status is that of a cancellation, which reads may
	// show a little late: not before at.
	acknowledged bool
}

func newWatch(t *env.Target, list []*suite.Case) *watch {
	w := &watch{target: t, jobs: map[string]sighting{}, faults: map[string]fault{}}
	for _, c := range list {
		if c.Watch != nil {
			w.cases = append(w.cases, c)
		}
	}
	return w
}

func (w *watch) fault(id string) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults[id]
}

// see takes an exchange as it was made; cases run side by side.
func (w *watch) see(x *wire.Exchange) {
	if len(w.cases) == 0 || x.Request.Quiet || x.Status == 0 {
		return
	}
	// A body may be long: only what is remembered is done one after the other.
	id, status := tells(x)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.look(x, id, status)
	for _, c := range w.cases {
		if _, found := w.faults[c.ID]; found {
			continue
		}
		if text := c.Watch(s); text != "" {
			w.faults[c.ID] = fault{
				did: w.hide.Redact(x.Request.Method + " " + x.Request.URL), came: w.hide.Redact(text + ": " + summary(x, w.hide)), x: x,
			}
		}
	}
}

// tells are the id and the status in an answer about a job.
func tells(x *wire.Exchange) (id, status string) {
	body, _ := x.JSON()
	members, _ := body.(map[string]any) // a stream answers an array, for one
	id, _ = members["id"].(string)
	status, _ = members["status"].(string)
	return id, status
}

// look tells what an exchange is about, whose body has an id and a status.
func (w *watch) look(x *wire.Exchange, id, status string) *suite.Watched {
	s := &suite.Watched{Exchange: x}
	path, _, _ := strings.Cut(x.Request.URL, "?")
	switch {
	case strings.HasPrefix(path, w.target.V1()+"/v1/"):
		s.API, s.Path = "v1", path[len(w.target.V1()+"/v1"):]
	case env.Managed(path) && strings.HasPrefix(path, w.target.V2()+"/v2/"):
		s.API, s.Path = "v2", path[len(w.target.V2()+"/v2"):]
	case strings.HasPrefix(path, w.target.Queue()+"/v2/"):
		s.API = "jobs"
		endpoint, rest, _ := strings.Cut(path[len(w.target.Queue()+"/v2/"):], "/")
		s.Path = "/" + rest
		w.follow(s, endpoint, id, status)
	}
	return s
}

// follow notes the status that an exchange of the job API tells of a job.
func (w *watch) follow(s *suite.Watched, endpoint, id, status string) {
	operation, asked, _ := strings.Cut(strings.TrimPrefix(s.Path, "/"), "/")
	switch operation {
	case "run", "runsync":
	case "status", "cancel", "retry":
		id = asked
	default:
		return
	}
	if id == "" {
		return
	}
	s.Job = endpoint + "/" + id
	last := w.jobs[s.Job]
	if operation == "retry" {
		last.retried = true
		w.jobs[s.Job] = last
	}
	if s.Exchange.Status/100 != 2 {
		return
	}
	// What is answered when the wait is over before the job, nothing says.
	if operation == "runsync" && !slices.Contains(suite.Statuses, status) {
		return
	}
	s.Status = status
	// Of two that were under way at the same time, nobody knows which was first.
	if last.status != "" && last.at.Before(s.Sent) {
		s.PreviousStatus, s.RetriedSince = last.status, last.retried
	}
	switch {
	case s.Status == "" || operation == "retry":
	case operation == "cancel":
		w.jobs[s.Job] = sighting{status: s.Status, at: s.Received.Add(w.target.Grace()), acknowledged: true}
	case last.acknowledged && last.status != s.Status && s.Sent.Before(last.at): // from before the cancellation
	default:
		w.jobs[s.Job] = sighting{status: s.Status, at: s.Received, retried: last.retried && last.status == s.Status}
	}
}
