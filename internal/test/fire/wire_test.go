package fire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
)

// wire is the network between one provider process and the deployment.
type wire struct {
	deployment  *deployment
	schedule    *schedule
	stop        func()           // sends SIGINT
	repeats     string           // see defect
	defectFault *wirefault.Fault // may be nil
	transport   *http.Transport

	mu       sync.Mutex
	isKilled bool // after kill -9
}

func newWire(t *testing.T, w *wire) *wire {
	var stop func()
	w.transport, stop = pipenet.Serve(http.HandlerFunc(w.serve))
	t.Cleanup(stop)
	w.transport.DisableKeepAlives = true // net/http would retry a GET on a reused connection
	return w
}

var errDropped = errors.New("read: connection reset by peer")

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.killed() {
		return nil, errDropped
	}
	return w.transport.RoundTrip(req)
}

func (w *wire) serve(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	operation := operation(r)
	f, latency := w.schedule.next(operation)
	if f != passes {
		w.schedule.logf("  %s: %s", operation, f)
	}
	switch {
	case f == stoppedBefore:
		w.stop()
	case f == killedBefore:
		w.kill()
	case f == notFoundYet && !w.deployment.wasJustCreated(r):
		f = passes
	}
	slowDeployment := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		w.deployment.ServeHTTP(out, r)
		time.Sleep(latency)
		switch f {
		case stoppedAfter:
			w.stop()
		case killedAfter:
			w.kill()
		}
	})
	var chosen []*wirefault.Fault
	losesResponse := f == droppedAfter || f == done500 || f == done502 || f == done503
	switch repeats := w.defectFault != nil && w.defectFault.Again != nil; {
	case repeats && losesResponse && strings.HasPrefix(operation, w.repeats):
		chosen = append(chosen, w.defectFault)
	case faults[f] != nil:
		chosen = append(chosen, faults[f])
		fallthrough
	default:
		if w.defectFault != nil && !repeats {
			chosen = append(chosen, w.defectFault)
		}
	}
	wirefault.Handler(slowDeployment, wirefault.Deployment{}, chosen...).ServeHTTP(out, r)
}

func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isKilled = true
}

func (w *wire) killed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isKilled
}

// operation returns the method and the path, with * for an id.
func operation(req *http.Request) string {
	parts := pathParts(req)
	if i := idAt(parts); len(parts) > i && parts[1] != "catalog" && parts[1] != "account" {
		parts[i] = "*"
	}
	return req.Method + " " + strings.Join(parts[1:], "/")
}

func pathParts(req *http.Request) []string {
	return strings.Split(strings.Trim(req.URL.Path, "/"), "/")
}

// idAt returns the index of the id in a path.
func idAt(parts []string) int {
	if len(parts) > 2 && parts[2] == "delegations" {
		return 3
	}
	return 2
}

// deployment is a jobrunner, with the creation times of its objects.
type deployment struct {
	handler http.Handler

	mu        sync.Mutex
	createdAt map[string]time.Time
}

// ServeHTTP also completes requests of clients that have disconnected.
func (d *deployment) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	r = r.WithContext(context.WithoutCancel(r.Context()))
	r.RemoteAddr = "127.0.0.1:1"
	recorder := httptest.NewRecorder()
	d.handler.ServeHTTP(recorder, r)
	if parts := pathParts(r); r.Method == http.MethodPost && recorder.Code/100 == 2 && len(parts) == idAt(parts) {
		var created struct{ ID string }
		if json.Unmarshal(recorder.Body.Bytes(), &created) == nil && created.ID != "" {
			d.mu.Lock()
			d.createdAt[created.ID] = time.Now()
			d.mu.Unlock()
		}
	}
	maps.Copy(out.Header(), recorder.Header())
	out.WriteHeader(recorder.Code)
	_, _ = out.Write(recorder.Body.Bytes())
}

// lag is the time after a create in which a read by id may return 404.
const lag = time.Second

// wasJustCreated reports whether a request reads a recently created object by its id.
func (d *deployment) wasJustCreated(req *http.Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.createdAt[req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]]
	return ok && req.Method == http.MethodGet && time.Since(at) < lag
}

// defect is a deliberate defect of the provider, the deployment or the user, which the tests must notice.
type defect struct {
	fault         func() *wirefault.Fault // creates a fault for one run, because a fault counts its uses; may be nil
	repeats       string                  // prefix of operations that are repeated if the response is lost
	forgets       bool                    // an object disappears from the state
	ignoresAdvice bool                    // the user ignores import commands
}

// repeats returns the defect that a create is sent twice if its response is lost.
func repeats(operations string) defect {
	return defect{fault: func() *wirefault.Fault { return &wirefault.Fault{Again: &wirefault.Edit{}} }, repeats: operations}
}

// The tests notice each defect within a few schedules.
func TestDefectsAreFound(t *testing.T) {
	const maxSchedules = 40
	both, onlyV2 := acctest.Versions, []api.Version{api.V2}
	for name, c := range map[string]struct {
		defect   defect
		nodesOf  nodeSource
		versions []api.Version
		finds    string // text in the failure
		long     bool   // not in a short run
	}{
		"a create is repeated": {repeats("POST "), serverless, both, "", false},
		"the state forgets":    {defect{forgets: true}, serverless, both, "", false},
		"lists hide": {defect{fault: func() *wirefault.Fault {
			return &wirefault.Fault{Method: "GET", Path: "^/v[12]/[^/]+$", Stale: 60}
		}}, serverless, both, "", false},
		"messages are not read":                {defect{ignoresAdvice: true}, serverless, both, "", false},
		"a create of a pod is repeated":        {repeats("POST pods"), pods, both, "pod work ", true},
		"a create of a cluster is repeated":    {repeats("POST clusters"), pods, onlyV2, "and is in no state", true},
		"a create of a delegation is repeated": {repeats("POST registries/delegations"), pods, onlyV2, "and is in no state", true},
		"keys of somebody else are dropped": {defect{fault: func() *wirefault.Fault {
			return &wirefault.Fault{Method: "PUT", Path: "/account/ssh-keys$", Request: wirefault.Edit{Raw: [][2]string{{`"` + regexp.QuoteMeta(foreignKey) + `",`, ""}}}}
		}}, pods, onlyV2, "the SSH key of somebody else is gone", false},
	} {
		versions := c.versions
		if testing.Short() { // one version is enough to test the harness
			versions = versions[len(versions)-1:]
		}
		for _, v := range versions {
			t.Run(name+"/"+string(v), func(t *testing.T) {
				if c.long && testing.Short() {
					t.Skip("a long test")
				}
				t.Parallel()
				for seed := range uint64(maxSchedules) {
					if wrong := runSchedule(t, v, c.nodesOf, seed+1, c.defect); len(wrong) > 0 && strings.Contains(strings.Join(wrong[1:], "\n"), c.finds) {
						return
					}
				}
				t.Errorf("none of %d schedules notices the defect", maxSchedules)
			})
		}
	}
}
