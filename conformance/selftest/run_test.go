package selftest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/gotest"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// judge judges, and fails for what is no verdict.
func judge(t *testing.T, o conformance.Options) *report.Report {
	t.Helper()
	r, err := conformance.Judge(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// verdicts are those of a report, by clause.
func verdicts(r *report.Report) map[string]report.Verdict {
	m := map[string]report.Verdict{}
	for _, x := range r.Results {
		m[x.Clause] = x.Verdict
	}
	return m
}

// From a Go test, and in a subtest for each clause.
func TestRunFromGo(t *testing.T) {
	r := gotest.Run(t, deployed(t, nil), func(o *conformance.Options) { o.Select = []string{"JOB-17", "LIM-11"} })
	if r.Counts[report.Pass] != 2 {
		t.Errorf("%v", r.Counts)
	}
}

// A target that is down is told of at once, in one line.
func TestTargetIsDown(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	for url, want := range map[string]string{closed.URL: "connection refused", hangs.URL: "no answer within", "http://name.invalid": "unreachable"} {
		start := time.Now()
		r := judge(t, conformance.Options{Target: conformance.Target{BaseURL: url, Key: "the-key"}})
		if took := time.Since(start); took > 30*time.Second || !strings.Contains(r.Preflight, want) || strings.Contains(r.Preflight, "\n") || r.Exit != conformance.ExitInconclusive {
			t.Errorf("%s: %q with exit code %d after %s", url, r.Preflight, r.Exit, took)
		}
		for _, x := range r.Results {
			if x.Verdict == report.Pass || x.Verdict == report.Observed {
				t.Errorf("%s: %s is %s", url, x.Clause, x.Verdict)
			}
		}
	}
}

// Whatever breaks off a run, what it made is taken down; and no secret is in the
// report.
func TestReportHasNoSecret(t *testing.T) {
	// Everything fails here, so that everything is told.
	target := deployed(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/status/") {
				w.WriteHeader(500)
				fmt.Fprintf(w, `{"error":%q}`, r.Header.Get("Authorization"))
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB", "AUT", "SUB-22"}})
	if r.Counts[report.Fail] == 0 || r.Exit != conformance.ExitFailed {
		t.Errorf("%v, exit code %d", r.Counts, r.Exit)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var terminal strings.Builder
	report.Terminal(&terminal, r, false)
	for _, secret := range []string{target.Key, target.OtherKey, target.UserKey, "planted-"} {
		if strings.Contains(string(text)+terminal.String(), secret) {
			t.Errorf("%q is in the report", secret)
		}
	}
	if !strings.Contains(terminal.String(), "curl -sS") || !strings.Contains(terminal.String(), "$GPUCLOUD_API_KEY") {
		t.Errorf("there is no command to repeat a failure:\n%s", &terminal)
	}
}

// The list of known deviations counts in both directions.
func TestKnownDeviations(t *testing.T) {
	broken := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/update") && bytes.Contains(body, []byte("11")) {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.ServeHTTP(w, r)
		})
	}
	known := func(lines string) conformance.Known {
		t.Helper()
		k, err := conformance.ParseKnown(lines)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for _, c := range []struct {
		lines string
		wrap  func(http.Handler) http.Handler
		exit  int
		want  report.Verdict
	}{
		{"", broken, 1, report.Fail},
		{"V-05 2999-01-01 it is smaller", broken, 0, report.Known},
		{"V-05 2001-01-01 it is a teapot", broken, 1, report.Fail},
		{"V-05 2999-01-01 it is a teapot", nil, 1, report.Unexpected},
		{"", nil, 0, report.Pass},
	} {
		r := judge(t, conformance.Options{Target: deployed(t, c.wrap), Select: []string{"V-05"}, Known: known(c.lines)})
		if got := verdicts(r)["V-05"]; got != c.want || r.Exit != c.exit {
			t.Errorf("%q: %s with exit code %d", c.lines, got, r.Exit)
		}
	}
	for _, lines := range []string{"V-05", "V-05 tomorrow it is a teapot", "V-99 2999-01-01 x", "V-05 2999-01-01 x\nV-05 2999-01-01 y"} {
		if _, err := conformance.ParseKnown(lines); err == nil {
			t.Errorf("%q is understood", lines)
		}
	}
}

// A failure that does not come again is told as one that comes and goes.
func TestFlakyFailure(t *testing.T) {
	var calls atomic.Int64
	target := deployed(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/cancel/") && calls.Add(1) == 1 {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB-17"}, Reruns: 2})
	if x := r.Results[0]; x.Verdict != report.Inconclusive || x.Repeats != "1/3" || r.Exit != conformance.ExitInconclusive {
		t.Errorf("%s, %s, exit code %d", x.Verdict, x.Repeats, r.Exit)
	}
}

// What the jobrunner does not serve is on the list, and nothing else.
func TestUnservedList(t *testing.T) {
	target := deployed(t, nil)
	for _, op := range conformance.Unserved() {
		method, path, _ := strings.Cut(op, " ")
		path = strings.NewReplacer("{id}", "x", "{workerId}", "y").Replace(path)
		if served(t, target, method, path) {
			t.Errorf("%s is served: take it off unserved.tsv", op)
		}
	}
	for _, c := range conformance.Cases() {
		for _, op := range c.Operations {
			method, path, ok := strings.Cut(op, " ")
			if !ok || !strings.HasPrefix(path, "/") {
				t.Errorf("%s names %q, which is no operation", c.ID, op)
				continue
			}
			path = strings.NewReplacer("{id}", "x", "{workerId}", "y").Replace(path)
			listed := strings.Contains("\n"+strings.Join(conformance.Unserved(), "\n")+"\n", "\n"+op+"\n")
			if !listed && !served(t, target, method, path) {
				t.Errorf("%s, of %s, is not served: put it on unserved.tsv", op, c.ID)
			}
		}
	}
}

// served tells whether a path has a handler for the method: what it does not
// know the router answers with 405, with 404 in these words, or, where a
// parameter of another path takes the place of a word, with 404.
func served(t *testing.T, target conformance.Target, method, path string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target.BaseURL+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+target.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body struct{ Detail string }
	_ = json.NewDecoder(resp.Body).Decode(&body) // another shape is another answer
	if resp.StatusCode == http.StatusNotFound && !strings.Contains(path, "/x") {
		return false
	}
	return resp.StatusCode != http.StatusMethodNotAllowed && !strings.HasPrefix(body.Detail, "there is nothing at")
}

// A run that is interrupted takes down what it made, and says so.
func TestInterrupted(t *testing.T) {
	target := deployed(t, nil)
	target.Local, target.Advance = false, nil // so that the case really waits
	ctx, cancel := newCancel(t)
	ledger := t.TempDir() + "/ledger"
	go func() {
		for { // until there is something to take down
			if text, err := os.ReadFile(ledger); err == nil && strings.Contains(string(text), `"serverless"`) {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r, err := conformance.Judge(ctx, conformance.Options{Target: target, Select: []string{"SUB-22"}, Allow: ^conformance.Allow(0), Ledger: ledger})
	if err != nil {
		t.Fatal(err)
	}
	if r.Exit != conformance.ExitInterrupted || len(r.Leaked) > 0 {
		t.Errorf("exit code %d, left %v", r.Exit, r.Leaked)
	}
	text, err := os.ReadFile(ledger)
	if err != nil || !strings.Contains(string(text), `"gone":true`) {
		t.Errorf("the ledger is %s, %v", text, err)
	}
}

// Whoever allows nothing has a run that only reads, in at most 220 requests:
// --max-requests leaves room for what is not served yet.
func TestDefaultRunReads(t *testing.T) {
	var requests atomic.Int64
	var making atomic.Bool
	target := deployed(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen := &statusWriter{ResponseWriter: w, status: 200}
			h.ServeHTTP(seen, r)
			requests.Add(1)
			if r.Method != http.MethodGet && seen.status/100 == 2 && !making.Load() {
				t.Errorf("%s %s is answered %d", r.Method, r.URL.Path, seen.status)
			}
		})
	})
	making.Store(true)
	target.Endpoint = endpoint(t, target)
	making.Store(false)
	requests.Store(0)
	target.Local, target.Advance, target.UserKey, target.OtherKey = false, nil, "", ""
	o := conformance.Options{Target: target}
	plan, err := conformance.Plan(o)
	if err != nil {
		t.Fatal(err)
	}
	whole := o
	whole.Target.Unserved = nil
	if p, err := conformance.Plan(whole); err != nil || p.Requests > 400 {
		t.Errorf("where all is served, %d requests are planned, and --max-requests is 400: %v", p.Requests, err)
	}
	r := judge(t, o)
	if r.Exit != 0 || r.Jobs > 0 || plan.Jobs > 0 {
		t.Errorf("exit code %d, %v, %d jobs", r.Exit, r.Counts, r.Jobs)
	}
	if n := requests.Load(); n > 220 || plan.Requests > 400 || int(n) > plan.Requests {
		t.Errorf("%d requests, planned up to %d", n, plan.Requests)
		for _, x := range r.Results {
			t.Log(x.Case, x.Requests)
		}
	}
}

// statusWriter keeps the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// endpoint makes one of the suite's handler.
func endpoint(t *testing.T, target conformance.Target) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target.BaseURL+"/v2/serverless", strings.NewReader(`{"name":"e","image":"builtin/conformance"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+target.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || body.ID == "" {
		t.Fatalf("making an endpoint: %d, %v", resp.StatusCode, err)
	}
	return body.ID
}
