package selftest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// serveOperations passes requests of the management API to the jobrunner, those of
// these operations of the job API to their handlers, and all others to rest.
func serveOperations(operations map[string]http.HandlerFunc, rest http.Handler) func(http.Handler) http.Handler {
	return func(jobrunner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if env.Managed(r.URL.Path) || strings.Contains(r.URL.Path, "nothing-is-here") {
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

// A run against a server that serves few operations ends soon, with everything
// allowed and reruns of failures: no case waits for an effect that can't occur any
// more. Virtual time passes only while all goroutines sleep, so that the duration is
// that of waits.
func TestRunAgainstPartialServerEndsSoon(t *testing.T) {
	queuedJob := fixedAnswer(200, "application/json", `{"id":"the-job-of-all","status":"IN_QUEUE"}`)
	rest := map[string]http.HandlerFunc{"404": stubHandlers["404"]}
	if !testing.Short() {
		rest["501"] = fixedAnswer(501, "application/json", `{"error":"this server has no such operation"}`)
		for _, name := range []string{"200 {}", "200 []", "200 HTML", "echo", "500"} {
			rest[name] = stubHandlers[name]
		}
	}
	for name, rest := range rest {
		for _, c := range []struct {
			name        string
			deployment  func(http.Handler) http.Handler // made of a jobrunner
			change      func(*conformance.Target)
			maxDuration time.Duration
		}{
			{"only health", func(http.Handler) http.Handler { return preflightServer(rest, false) }, func(t *conformance.Target) { t.Endpoint = "our-endpoint" }, 0},
			{
				"only health, without the management API", func(http.Handler) http.Handler { return preflightServer(rest, false) },
				func(t *conformance.Target) { t.Endpoint, t.BaseURL, t.QueueURL = "our-endpoint", "", t.BaseURL }, 0,
			},
			// A read may be from before a change: a case waits some seconds for each
			// object to show it.
			{"creates objects", func(http.Handler) http.Handler { return preflightServer(rest, true) }, nil, 6 * time.Minute},
			{"only the management API", serveOperations(nil, rest), nil, time.Minute},
			// A deployment that accepts a job may let it wait until its ttl ends.
			{"accepts jobs", serveOperations(map[string]http.HandlerFunc{"run": queuedJob, "runsync": queuedJob}, rest), nil, 90 * time.Second},
			// A worker may take long to start: the first case that waits in vain for one
			// spares the others the wait.
			{"jobs stay IN_QUEUE", serveOperations(map[string]http.HandlerFunc{"run": queuedJob, "status": queuedJob}, rest), nil, 12 * time.Minute},
		} {
			if c.maxDuration > 10*time.Minute && name != "404" {
				continue // one server is enough for the longest run
			}
			t.Run(name+", "+c.name, func(t *testing.T) {
				t.Parallel()
				r := remoteInBubble(t, c.deployment, func(o *conformance.Options) {
					o.Target.Unserved, o.MaxWait = nil, 5*time.Minute
					if c.change != nil {
						c.change(&o.Target)
					}
				})
				took := time.Duration(r.Duration)
				if r.Reruns != nil {
					took += time.Duration(r.Reruns.Duration)
				}
				if took > c.maxDuration || r.Preflight != "" || r.Counts[report.Fail] < 10 {
					t.Errorf("%s, %q, %v", took, r.Preflight, r.Counts)
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

// A run ends against a target that accepts requests and answers none.
func TestRunAgainstHangingServerEnds(t *testing.T) {
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server detects a closed connection
		<-r.Context().Done()
	})
	r := remoteInBubble(t, serveOperations(nil, hang), func(o *conformance.Options) { o.Select = []string{"JOB-0*", "LIM-16"} })
	if took := time.Duration(r.Duration); took > 10*time.Minute || r.Counts[report.Fail] > 0 || r.Counts[report.Inconclusive] < 5 {
		t.Errorf("%s, %v", took, r.Counts)
	}
}
