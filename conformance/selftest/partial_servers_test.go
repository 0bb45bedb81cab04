package selftest_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// serveOperations serves management from the jobrunner, the given operations of the job API, and all others from rest.
func serveOperations(operations map[string]http.HandlerFunc, rest http.Handler) func(http.Handler) http.Handler {
	return func(jobrunner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if env.IsManagement(r.URL.Path) || strings.Contains(r.URL.Path, "nothing-is-here") {
				jobrunner.ServeHTTP(w, r)
				return
			}
			operation := strings.SplitN(r.URL.Path, "/", 5) // "", v2, endpoint, operation, job
			if len(operation) > 3 && operations[operation[3]] != nil {
				operations[operation[3]](w, r)
				return
			}
			rest.ServeHTTP(w, r)
		})
	}
}

// A run against a server that serves few operations ends soon: no case waits for an effect that can't occur. The
// duration is the sum of the waits, in virtual time.
func TestRunAgainstPartialServerEndsSoon(t *testing.T) {
	acctest.LeaveToCI(t, "TestRunAgainstHangingServerEnds covers the slowest server")
	queuedJob := fixedAnswer(200, "application/json", `{"id":"the-job-of-all","status":"IN_QUEUE"}`)
	rests := map[string]http.HandlerFunc{"404": stubHandlers["404"]}
	if !testing.Short() {
		rests["501"] = fixedAnswer(501, "application/json", `{"error":"this server has no such operation"}`)
		for _, name := range []string{"200 {}", "200 []", "200 HTML", "echo", "500"} {
			rests[name] = stubHandlers[name]
		}
	}
	for name, rest := range rests {
		for _, c := range []struct {
			name        string
			deployment  func(http.Handler) http.Handler // wraps a jobrunner
			change      func(*conformance.Target)
			maxDuration time.Duration
		}{
			{"only health", func(http.Handler) http.Handler { return preflightServer(rest, false) }, func(t *conformance.Target) { t.Endpoint = "our-endpoint" }, 15 * time.Second}, // it searches once for objects whose creation was refused
			{
				"only health, without the management API", func(http.Handler) http.Handler { return preflightServer(rest, false) },
				func(t *conformance.Target) { t.Endpoint, t.BaseURL, t.QueueURL = "our-endpoint", "", t.BaseURL }, 0,
			},
			// Reads may lag behind a change, so a case waits some seconds for each object.
			{"creates objects", func(http.Handler) http.Handler { return preflightServer(rest, true) }, nil, 6 * time.Minute},
			{"only the management API", serveOperations(nil, rest), nil, time.Minute},
			// A deployment that accepts a job may let it wait until its ttl ends.
			{"accepts jobs", serveOperations(map[string]http.HandlerFunc{"run": queuedJob, "runsync": queuedJob}, rest), nil, 90 * time.Second},
			// A worker may take long to start, so the first case waits long, and the others shorter.
			{"jobs stay IN_QUEUE", serveOperations(map[string]http.HandlerFunc{"run": queuedJob, "status": queuedJob}, rest), nil, 12 * time.Minute},
		} {
			if c.maxDuration > 10*time.Minute && name != "404" {
				continue // one server is enough for the longest run
			}
			t.Run(name+", "+c.name, func(t *testing.T) {
				t.Parallel()
				r := judgeRemoteInBubble(t, c.deployment, func(o *conformance.Options) {
					o.MaxWait = 5 * time.Minute
					if c.change != nil {
						c.change(&o.Target)
					}
				})
				took := time.Duration(r.Duration)
				if r.Reruns != nil {
					took += time.Duration(r.Reruns.Duration)
				}
				if took > c.maxDuration || r.Preflight != "" || r.Counts[report.Fail] < 10 {
					t.Errorf("the run took %s of at most %s, preflight %q, with the verdicts %v", took, c.maxDuration, r.Preflight, r.Counts)
					for _, x := range r.Results {
						if time.Duration(x.Duration) > c.maxDuration {
							t.Logf("%s took %s", x.Case, time.Duration(x.Duration))
						}
					}
				}
			})
		}
	}
}

// A run against a target that accepts requests, but answers none, ends.
func TestRunAgainstHangingServerEnds(t *testing.T) {
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server detects a closed connection
		<-r.Context().Done()
	})
	everythingHangs := func(h http.Handler) http.Handler {
		var afterPreflight atomic.Bool
		return intercept(func(r *http.Request) bool {
			return afterPreflight.Swap(afterPreflight.Load() || strings.Contains(r.URL.Path, "nothing-is-here"))
		}, hang)(h)
	}
	for name, c := range map[string]struct {
		deployment      func(http.Handler) http.Handler
		allow           conformance.Permission
		selected        string
		maxDuration     time.Duration
		minInconclusive int
		reason          string
		minPassed       int
	}{
		"everything hangs, only reads": {everythingHangs, 0, "*", 4 * time.Minute, 30, "3 requests in a row timed out", 0},
		"everything hangs":             {everythingHangs, ^conformance.Permission(0), "*", 5 * time.Minute, 150, "3 requests in a row timed out", 0},
		"the job API hangs":            {serveOperations(nil, hang), ^conformance.Permission(0), "JOB,LIM-16,T", 15 * time.Minute, 5, "3 requests in a row timed out", 10},
		"billing hangs":                {intercept(pathHas("/v2/billing"), hang), 0, "BIL,VER-3*,AUT-02", 4 * time.Minute, 5, "3 requests in a row timed out in the section BIL", 5},
	} {
		t.Run(name, func(t *testing.T) {
			r := judgeRemoteInBubble(t, c.deployment, func(o *conformance.Options) {
				o.Select, o.Allow = strings.Split(c.selected, ","), c.allow
				if c.allow == 0 {
					o.Target.Endpoint = "our-endpoint"
				}
				if strings.HasPrefix(c.selected, "BIL") {
					o.Parallel = 1 // the section has few cases
				}
			})
			took, withReason := time.Duration(r.Duration), 0
			for _, x := range r.Results {
				if strings.Contains(x.Reason, c.reason) {
					withReason++
				}
			}
			if took > c.maxDuration || r.Counts[report.Fail] > 0 || r.Counts[report.Inconclusive] < c.minInconclusive || withReason == 0 || r.Counts[report.Pass] < c.minPassed || r.Exit != conformance.ExitInconclusive && len(r.Leaked) == 0 {
				t.Errorf("the run took %s of at most %s, with the verdicts %v, %d with the reason %q, exit code %d, not deleted %v, preflight %q", took, c.maxDuration, r.Counts, withReason, c.reason, r.Exit, r.Leaked, r.Preflight)
			}
			for _, x := range r.Results {
				if x.Verdict == report.Fail {
					t.Log(report.Text(x))
				}
			}
		})
	}
}

// A run sends at most --max-requests requests, including deletions, even if jobs never start.
func TestRunKeepsToMaxRequests(t *testing.T) {
	queuedJob := fixedAnswer(200, "application/json", `{"id":"the-job-of-all","status":"IN_QUEUE"}`)
	for name, deployment := range map[string]func(http.Handler) http.Handler{
		"no fault":         passThrough,
		"jobs never start": serveOperations(map[string]http.HandlerFunc{"run": queuedJob, "status": queuedJob}, stubHandlers["404"]),
		"slow answers":     withLatency(3 * time.Second),
	} {
		for _, maxRequests := range []int{100, 400} {
			var requests atomic.Int64
			r := judgeRemoteInBubble(t, func(h http.Handler) http.Handler { return countRequests(&requests)(deployment(h)) }, func(o *conformance.Options) {
				o.Allow, o.MaxRequests, o.MaxWait = suite.Create|suite.Queue, maxRequests, 5*time.Minute
				plan, err := conformance.Plan(*o)
				must.Hold(t, err == nil && plan.Requests <= maxRequests && len(plan.Cases) >= maxRequests/40,
					name, "a plan with", plan.Requests, "requests of", len(plan.Cases), "cases,", err)
				must.Hold(t, strings.Count(plan.String(), "skipped, budget") <= 2 && !strings.Contains(plan.String(), "--max-seconds"), "lines about the budget in", plan)
			})
			n := int(requests.Load())
			must.Hold(t, n <= maxRequests && len(r.Leaked) == 0 && r.Judged() != 0, name, n, "requests of", maxRequests, r.Counts, "not deleted", r.Leaked)
		}
	}
	// The cleanup doesn't search for an object whose creation wasn't sent.
	r := judgeRemoteInBubble(t, passThrough, func(o *conformance.Options) { o.Select, o.Allow, o.MaxRequests = []string{"V-05"}, suite.Create, 25 })
	must.Hold(t, time.Duration(r.Duration) < time.Second && r.Counts[report.Skip] == 1, "the run took", time.Duration(r.Duration), r.Counts)
}
