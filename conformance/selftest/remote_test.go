package selftest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// judgeRemoteInBubble judges a jobrunner as a remote deployment, whose clock the suite can't advance, with
// everything allowed and wrap as a middleware. The test's time is virtual, so waits take no real time.
func judgeRemoteInBubble(t *testing.T, wrap func(http.Handler) http.Handler, change func(*conformance.Options)) (r *report.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		target, dir := newTarget(t)
		target.BaseURL, target.Local = "http://jobrunner", false
		j := must.Do(jobrunner.New(t.Context(), jobrunner.Config{APIKey: target.Key, KeyDir: dir}))(t)
		client, stop := serveInMemory(wrap(j.Handler()))
		target.Client = client
		o := conformance.Options{Target: target, Allow: ^conformance.Permission(0), MaxWait: 30 * 24 * time.Hour, Reruns: 2}
		if change != nil {
			change(&o)
		}
		r = judge(t, o)
		stop()
		must.Succeed(t, j.Close())
		time.Sleep(time.Minute) // lets goroutines end that discard the bodies of rejected requests
	})
	return r
}

func passThrough(h http.Handler) http.Handler { return h }

// withLatency delays requests and answers like a distant network, each by half of the latency.
func withLatency(latency time.Duration) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has disconnected
			}
			time.Sleep(latency / 2)
			r.Body = io.NopCloser(bytes.NewReader(body))
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			time.Sleep(latency / 2)
			forward(w, answer)
		})
	}
}

// withLateEffects delays ttl and execution time-outs by lag, as if the sweeper ran rarely.
func withLateEffects(lag time.Duration) func(http.Handler) http.Handler {
	lengthen := func(value any, minimum, maximum int64) any {
		number, ok := value.(json.Number)
		ms, err := number.Int64()
		if !ok || err != nil || ms < minimum || ms > maximum-lag.Milliseconds() {
			return value
		}
		return ms + lag.Milliseconds()
	}
	const week = 7 * 24 * time.Hour
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has disconnected
			}
			if len(text) > 1<<16 { // a case about sizes sets no times
				r.Body = io.NopCloser(bytes.NewReader(text))
				h.ServeHTTP(w, r)
				return
			}
			var body map[string]any
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			if json.Valid(text) && utf8.Valid(text) && d.Decode(&body) == nil && (strings.HasSuffix(r.URL.Path, "/run") || strings.HasSuffix(r.URL.Path, "/runsync")) {
				policy, ok := body["policy"].(map[string]any)
				if body["policy"] == nil {
					policy, ok = map[string]any{"executionTimeout": json.Number("600000"), "ttl": json.Number("86400000")}, true
				}
				if _, input := body["input"]; ok && input {
					policy["executionTimeout"] = lengthen(policy["executionTimeout"], 5000, week.Milliseconds())
					policy["ttl"] = lengthen(policy["ttl"], 10_000, week.Milliseconds())
					maps.DeleteFunc(policy, func(_ string, value any) bool { return value == nil })
					body["policy"] = policy
					text, _ = json.Marshal(body) // decoded JSON
				}
			}
			if ttl := r.URL.Query().Get("ttl"); ttl != "" {
				r.URL.RawQuery = fmt.Sprint("ttl=", lengthen(json.Number(ttl), 10_000, week.Milliseconds()))
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			r.Header.Set("Content-Length", fmt.Sprint(len(text)))
			h.ServeHTTP(w, r)
		})
	}
}

// A remote run doesn't fail or need reruns because of latency or late timed effects.
func TestRemoteRunToleratesDelays(t *testing.T) {
	acctest.LeaveToCI(t, "TestSlowResponsesWhileClockAdvances covers delayed responses")
	lateEffects := withLateEffects(4 * time.Second)
	for name, c := range map[string]struct {
		wrap            func(http.Handler) http.Handler
		change          func(*conformance.Options)
		maxInconclusive int  // clauses that may be inconclusive
		sample          bool // runs with -short; has both kinds of delay
	}{
		"near":            {wrap: passThrough},
		"700 ms away":     {wrap: withLatency(700 * time.Millisecond), maxInconclusive: 4},
		"1.5 s away":      {wrap: withLatency(1500 * time.Millisecond), maxInconclusive: 8},
		"3 s away":        {wrap: withLatency(3 * time.Second), maxInconclusive: 12},
		"sweeps 4 s late": {wrap: lateEffects},
		"700 ms away, sweeps 4 s late": {
			wrap: func(h http.Handler) http.Handler { return withLatency(700 * time.Millisecond)(lateEffects(h)) }, maxInconclusive: 4, sample: true,
		},
		"paced, 100 ms away": {
			wrap: withLatency(100 * time.Millisecond), change: func(o *conformance.Options) { o.Pace = env.NewPace(env.SharedInterval, time.Second/10) }, maxInconclusive: 30,
		},
		"one case at a time": {wrap: passThrough, change: func(o *conformance.Options) { o.Parallel = 1 }},
		"reads 3 s old": {wrap: func(h http.Handler) http.Handler {
			return wirefault.Handler(h, wirefault.Deployment{}, &wirefault.Fault{Method: "GET", Path: "^/v(1|2/(templates|network-volumes|registries|serverless))", Stale: 3})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !c.sample {
				t.Skip("runs without -short")
			}
			t.Parallel()
			r := judgeRemoteInBubble(t, c.wrap, c.change)
			inconclusive := 0
			for _, x := range r.Results {
				switch x.Verdict {
				case report.Pass, report.Observed, report.Skip:
				case report.Inconclusive:
					inconclusive++
					must.Hold(t, x.Repeats == "" && inconclusive <= c.maxInconclusive, report.Text(x))
				default:
					t.Error(report.Text(x))
				}
			}
			must.Hold(t, r.Judged() >= 195 && len(r.Leaked) == 0, "expected 195 judged clauses or more, got", r.Judged(), r.Counts, "not deleted", r.Leaked)
		})
	}
}

// However slow a deployment is, LIM-08 passes if it accepts some unusual submissions, and VER-01 is skipped if it lacks version 1. The
// first worker of an endpoint may start after the wait of /runsync.
func TestSlowLenientDeployment(t *testing.T) {
	lenient := intercept(func(r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(bytes.Replace(body, []byte(`"policy":"soon"`), []byte(`"policy":{}`), 1)))
		return false
	}, nil)
	r := judgeRemoteInBubble(t, func(h http.Handler) http.Handler { return withLatency(2 * time.Second)(lenient(h)) }, func(o *conformance.Options) { o.Select = []string{"LIM-08"} })
	must.Equal(t, r.Results[0].Verdict, report.Pass, report.Text(r.Results[0]))
	withoutV1 := intercept(pathHas("/v1/"), stubHandlers["404"])
	r = judgeRemoteInBubble(t, func(h http.Handler) http.Handler { return withLatency(3 * time.Second)(withoutV1(h)) }, func(o *conformance.Options) { o.Select, o.Target.FindVersions = []string{"VER-01"}, true })
	must.Equal(t, r.Results[0].Verdict, report.Skip, report.Text(r.Results[0]))
	for _, x := range judgeRemoteInBubble(t, withLatency(6*time.Second), func(o *conformance.Options) {
		o.Select = []string{"JOB-02", "JOB-21", "JOB-44", "OPS-17", "ERR-04", "VER-44"}
	}).Results {
		must.Hold(t, x.Verdict == report.Pass || x.Verdict == report.Inconclusive, report.Text(x))
	}
	var submitted sync.Map // by endpoint
	coldStart := intercept(func(r *http.Request) bool {
		endpoint, operation := filepath.Split(r.URL.Path)
		_, warm := submitted.LoadOrStore(endpoint, true)
		if warm || operation != "runsync" {
			return false
		}
		time.Sleep(90 * time.Second)
		r.URL.Path = endpoint + "run"  // answers as /runsync may do when its wait is over
		return r.ContentLength > 1<<20 // which may have no id
	}, fixedAnswer(408, "", ""))
	for _, x := range judgeRemoteInBubble(t, coldStart, func(o *conformance.Options) { o.Select = []string{"JOB-06", "JOB-14", "OPS-26", "LIM-04"} }).Results {
		must.Equal(t, x.Verdict, report.Pass, report.Text(x))
	}
	neverStarts := func(o *conformance.Options) { o.Select = []string{"JOB-15", "JOB-36"} }
	for _, x := range judgeRemoteInBubble(t, intercept(pathHas("/status/"), fixedAnswer(200, "application/json", `{"id":"j","status":"IN_QUEUE"}`)), neverStarts).Results {
		must.Equal(t, x.Verdict, report.Inconclusive, report.Text(x))
	}
}

// A case that shares an endpoint's only worker with other cases doesn't wait for their jobs.
func TestCasesShareWorker(t *testing.T) {
	r := judgeRemoteInBubble(t, passThrough, func(o *conformance.Options) {
		o.Select, o.MaxWait, o.Target.Endpoint = []string{"JOB-1*", "SUB-2*", "OPS-0*"}, 5*time.Minute, createEndpoint(t, o.Target)
	})
	stopped := startDeployment(t, nil) // its clock
	stopped.Local, stopped.Endpoint = false, createEndpoint(t, stopped)
	second := judge(t, conformance.Options{Target: stopped, Allow: ^conformance.Permission(0), Select: []string{"JOB-1*", "SUB-2*", "OPS-0*"}})
	for _, x := range append(r.Results, second.Results...) {
		must.Hold(t, slices.Contains([]report.Verdict{report.Pass, report.Observed, report.Skip}, x.Verdict), report.Text(x))
	}
}

// A run waits after each 429 of the management API, also if Retry-After is longer than an answer may take.
func TestRunWaitsAfter429(t *testing.T) {
	var n atomic.Int64
	limited := intercept(func(r *http.Request) bool { return env.IsManagement(r.URL.Path) && n.Add(1)%10 == 0 }, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "90")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	r := judgeRemoteInBubble(t, limited, func(o *conformance.Options) { o.Select, o.Pace = []string{"VER-0*", "STO"}, env.NewPace(0, 0) })
	for _, x := range r.Results {
		must.Hold(t, x.Verdict == report.Pass || x.Verdict == report.Skip, report.Text(x))
	}
}

// A run caches no answers: as many requests arrive as it counts.
func TestRemoteRunCachesNoAnswer(t *testing.T) {
	var arrived atomic.Int64
	r := judgeRemoteInBubble(t, countRequests(&arrived), func(o *conformance.Options) { o.Select = []string{"VER-3*", "VER-06", "AUT-02", "RAT-08", "VER-19"} })
	sent, seen := 0, map[string]bool{}
	for _, x := range r.Results {
		must.Hold(t, x.Verdict == report.Pass || x.Verdict == report.Skip, report.Text(x))
		if !seen[x.Case] {
			sent += x.Requests
		}
		seen[x.Case] = true
	}
	// The preflight sends two requests. Other requests that no clause counts create and delete endpoints.
	n := int(arrived.Load())
	must.Hold(t, n == int(r.Requests)+2 && sent <= n && sent >= 30, n, "requests arrived, the report says", r.Requests, "and its clauses", sent)
}

// tokenBucket answers a key's requests to an endpoint with 404 while its bucket has tokens, and otherwise with 429. A bucket has
// 100 tokens, and is refilled evenly within ten seconds.
func tokenBucket() http.HandlerFunc {
	type bucket struct {
		tokens float64
		at     time.Time
	}
	var mu sync.Mutex
	buckets := map[string]*bucket{}
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(200 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		key := r.URL.Path[:16] + r.Header.Get("Authorization")
		b := cmp.Or(buckets[key], &bucket{100, time.Now()})
		buckets[key] = b
		b.tokens, b.at = min(100, b.tokens+10*time.Since(b.at).Seconds()), time.Now()
		if b.tokens < 1 {
			stubHandlers["429"](w, r)
			return
		}
		b.tokens--
		stubHandlers["404"](w, r)
	}
}

// Faults of the network and a key with few rights aren't violations.
func TestNetworkAndKeyAreNotJudged(t *testing.T) {
	var purges atomic.Int64
	for name, c := range map[string]struct {
		clause  string
		matches func(*http.Request) bool
		answer  http.HandlerFunc
		want    report.Verdict
	}{
		"a gateway's error":      {"VER-38", pathHas("/v2/catalog/cpus"), fixedAnswer(502, "text/html", "<h1>Bad Gateway</h1>"), report.Inconclusive},
		"a gateway's JSON":       {"VER-38", pathHas("/v2/catalog/cpus"), fixedAnswer(504, "application/json", `{"message":"Endpoint request timed out"}`), report.Inconclusive},
		"the deployment's error": {"VER-38", pathHas("/v2/catalog/cpus"), fixedAnswer(503, "application/json", "{}"), report.Fail},
		"a key with few rights":  {"VER-27", pathHas("/v2/templates"), fixedAnswer(403, "application/json", "{}"), report.Inconclusive},
		"an answer that is cut off": {"ERR-11", pathHas("/purge-queue"), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			_, _ = io.WriteString(w, "{")
		}, report.Inconclusive},
		"no PATCH of version 1":     {"V-05", func(r *http.Request) bool { return r.Method == http.MethodPatch }, fixedAnswer(501, "", ""), report.Pass},
		"no global volumes":         {"GLO-01", pathHas("/v2/global-volumes"), fixedAnswer(501, "application/json", "{}"), report.Skip},
		"no operation /requests":    {"OPS-30", pathHas("/requests"), fixedAnswer(501, "", ""), report.Observed},
		"a used-up rate limit":      {"VER-38", pathHas("/v2/catalog/cpus"), stubHandlers["429"], report.Inconclusive},
		"a bucket that refills":     {"RAT-05", pathHas("/cancel/"), tokenBucket(), report.Pass},
		"a bucket in other clauses": {"RAT-22", pathHas("/cancel/"), tokenBucket(), report.Pass},
		"a hang-up at a large body": {"BAT-11", func(r *http.Request) bool { return r.ContentLength > 10<<20 }, stubHandlers["hangs up"], report.Pass},
		"an account without money":  {"VER-27", pathHas("/v2/templates"), fixedAnswer(402, "application/json", "{}"), report.Inconclusive},
		"a gateway's error in a burst": {"RAT-06", func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/purge-queue") && purges.Add(1)%2 == 0
		}, fixedAnswer(502, "text/html", "<h1>Bad Gateway</h1>"), report.Inconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			r := judgeRemoteInBubble(t, intercept(c.matches, c.answer), func(o *conformance.Options) { o.Select = []string{c.clause} })
			must.Hold(t, r.Results[0].Verdict == c.want && len(r.Leaked) == 0, report.Text(r.Results[0]), "left", r.Leaked)
		})
	}
}

// The suite deletes an object whose create's answer is lost, and leaves other runs' objects in its ledger.
func TestRunDeletesItsOwnObjects(t *testing.T) {
	var created, deleted, answered atomic.Int64
	path := filepath.Join(t.TempDir(), "ledger")
	otherRun := must.Do(env.OpenLedger(path))(t)
	other := env.Object{Kind: "templates", ID: "other", Method: "DELETE", URL: "http://jobrunner/v2/templates/other", Case: "VER-27"}
	must.Do(otherRun.Add(other))(t)
	r := judgeRemoteInBubble(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			switch {
			case r.Method == http.MethodPost && answer.Code/100 == 2:
				created.Add(1)
				stubHandlers[[]string{"hangs up", "200 {}", "400"}[answered.Add(1)%3]](w, r)
				return
			case r.Method == http.MethodDelete && answer.Code/100 == 2:
				deleted.Add(1)
			}
			forward(w, answer)
		})
	}, func(o *conformance.Options) { o.Select, o.Ledger = []string{"VER-27"}, path })
	must.Hold(t, created.Load() > 0 && deleted.Load() == created.Load() && len(r.Leaked) == 0, created.Load(), "created,", deleted.Load(), "deleted", r.Leaked)
	must.Hold(t, len(r.Notes) == 1 && strings.Contains(r.Notes[0], "lists 1 object of earlier runs"), "the notes are", r.Notes)
	must.Do(otherRun.Add(other))(t) // after the entries of the run
	left := must.Do(env.OpenLedger(path))(t).Remaining("")
	must.Hold(t, len(left) == 2 && left[0].ID == "other" && left[1].ID == "other", "the ledger has", left)
}
