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

// splits serves the management API, and of the job API the operations that some
// names; the rest is another handler's.
func splits(some map[string]http.HandlerFunc, rest http.Handler) func(http.Handler) http.Handler {
	return func(jobrunner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if env.Managed(r.URL.Path) || strings.Contains(r.URL.Path, "nothing-is-here") {
				jobrunner.ServeHTTP(w, r)
				return
			}
			operation := strings.SplitN(r.URL.Path, "/", 5) // "", v2, endpoint, operation, job
			if len(operation) > 3 && some[operation[3]] != nil {
				some[operation[3]](w, r)
				return
			}
			rest.ServeHTTP(w, r)
		})
	}
}

// A run against a server that serves little ends soon, with all allowed and
// failures run again: nobody waits for what can't come any more. The bubble's
// time passes while everybody sleeps, and only then.
func TestServerThatServesLittleIsLeftSoon(t *testing.T) {
	queued := always(200, "application/json", `{"id":"the-job-of-all","status":"IN_QUEUE"}`)
	rest := map[string]http.HandlerFunc{"404": dull["404"]}
	if !testing.Short() {
		rest["501"] = always(501, "application/json", `{"error":"not implemented"}`)
		for _, name := range []string{"200 {}", "200 []", "200 HTML", "echo", "500"} {
			rest[name] = dull[name]
		}
	}
	for name, rest := range rest {
		for _, c := range []struct {
			name       string
			deployment func(http.Handler) http.Handler // made of a jobrunner
			change     func(*conformance.Target)
			most       time.Duration
		}{
			{"health alone", func(http.Handler) http.Handler { return liar(rest, false) }, func(t *conformance.Target) { t.Endpoint = "our-endpoint" }, 0},
			{
				"health alone, without the management API", func(http.Handler) http.Handler { return liar(rest, false) },
				func(t *conformance.Target) { t.Endpoint, t.BaseURL, t.QueueURL = "our-endpoint", "", t.BaseURL }, 0,
			},
			// A read may come from before a change, which each object may take some
			// seconds to show.
			{"things are made", func(http.Handler) http.Handler { return liar(rest, true) }, nil, 6 * time.Minute},
			{"management alone", splits(nil, rest), nil, time.Minute},
			// Whoever takes a job may let it wait until its ttl is over.
			{"jobs are taken", splits(map[string]http.HandlerFunc{"run": queued, "runsync": queued}, rest), nil, 90 * time.Second},
			// A worker may have to be started first; when none was, that is known.
			{"jobs wait for ever", splits(map[string]http.HandlerFunc{"run": queued, "status": queued}, rest), nil, 12 * time.Minute},
		} {
			if c.most > 10*time.Minute && name != "404" {
				continue // one is enough of what takes long
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
				if took > c.most || r.Preflight != "" || r.Counts[report.Fail] < 10 {
					t.Errorf("%s, %q, %v", took, r.Preflight, r.Counts)
					for _, x := range r.Results {
						if time.Duration(x.Duration) > c.most {
							t.Logf("%s took %s", x.Case, time.Duration(x.Duration))
						}
					}
				}
			})
		}
	}
}

// A target that takes requests and answers none holds no run for ever.
func TestServerThatHoldsRequests(t *testing.T) {
	holds := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices the client's end
		<-r.Context().Done()
	})
	r := remoteInBubble(t, splits(nil, holds), func(o *conformance.Options) { o.Select = []string{"JOB-0*", "LIM-16"} })
	if took := time.Duration(r.Duration); took > 10*time.Minute || r.Counts[report.Fail] > 0 || r.Counts[report.Inconclusive] < 5 {
		t.Errorf("%s, %v", took, r.Counts)
	}
}
